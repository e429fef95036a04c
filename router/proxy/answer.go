package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/router"
)

const (
	// chunk is how much of an answer is held before it is passed on, at most, in bytes: an
	// answer that breaks off within it can still be answered with an error.
	chunk = 32 << 10
	// maxEvent is the longest event of a stream, in bytes.
	maxEvent = 1 << 20

	trailerTiming = "Server-Timing"
)

// ownHeaders are of one connection, or the router's own, and are not passed on.
var ownHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length", "Date", httpapi.HeaderRequestID,
	httpapi.HeaderAttempt, httpapi.HeaderToken, httpapi.TrailerTurn,
}

// answer is the decode engine's answer on its way to the client. One goroutine has it at a
// time: the decode leg's while it copies, the exchange's before and after.
type answer struct {
	w       http.ResponseWriter
	onFirst func()
	// begun says that status and headers are sent, with status.
	begun  bool
	status int
	// events says that the answer is a stream of events.
	events bool
	// readTiming is the Server-Timing of a decode engine that read the KV itself.
	readTiming string
}

// errClient says that the client could not be written to.
var errClient = errors.New("the client cannot be written to")

// copy passes an engine's answer on to its end. The error wraps errClient, or is the engine's.
func (a *answer) copy(resp *http.Response) error {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	a.events = strings.EqualFold(strings.TrimSpace(media), openai.ContentTypeSSE)
	if a.events {
		// The client learns at once that there is an answer, since the first token may be
		// text that is held back.
		if err := a.send(resp, nil); err != nil {
			return err
		}
		return a.copyEvents(resp)
	}
	return a.copyBody(resp)
}

// copyEvents passes on whole events only, so that a stream that breaks off can be ended with
// an event that says so.
func (a *answer) copyEvents(resp *http.Response) error {
	buf := make([]byte, 0, chunk)
	for {
		buf = slices.Grow(buf, chunk)
		n, err := resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		whole := wholeEvents(buf)
		if len(buf)-whole > maxEvent {
			return fmt.Errorf("%w: more than %d bytes", openai.ErrEventTooLong, maxEvent)
		}
		if err == io.EOF {
			whole = len(buf)
		}
		if whole > 0 {
			if err := a.send(resp, buf[:whole]); err != nil {
				return err
			}
			buf = append(buf[:0], buf[whole:]...)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// wholeEvents is how much of b is whole events: up to its last empty line, ended by LF or CRLF.
func wholeEvents(b []byte) int {
	end := 0
	for _, blank := range []string{"\n\n", "\n\r\n"} {
		if i := bytes.LastIndex(b, []byte(blank)); i >= 0 {
			end = max(end, i+len(blank))
		}
	}
	return end
}

// copyBody passes on a body in full chunks, and its headers with the first.
func (a *answer) copyBody(resp *http.Response) error {
	buf := make([]byte, chunk)
	for {
		n, err := fill(resp.Body, buf)
		if err != nil && err != io.EOF {
			return err
		}
		if err := a.send(resp, buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
	}
}

// fill reads until buf is full. Unlike io.ReadFull it tells a body's end from its breaking off.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// send writes b to the client now, and the headers before the first.
func (a *answer) send(resp *http.Response, b []byte) error {
	if !a.begun {
		a.begin(resp)
	}
	if _, err := a.w.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	if err := http.NewResponseController(a.w).Flush(); err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	return nil
}

func (a *answer) begin(resp *http.Response) {
	h := a.w.Header()
	for name, values := range resp.Header {
		if !slices.Contains(ownHeaders, name) {
			h[name] = values
		}
	}
	h.Set("Trailer", trailerTiming)
	a.w.WriteHeader(resp.StatusCode)
	a.begun, a.status = true, resp.StatusCode
	a.onFirst()
}

// fail answers with an error, as nothing was sent.
func (a *answer) fail(err *openai.Error) {
	a.status = err.Status
	httpapi.WriteError(a.w, err)
}

// breakOff ends an answer that cannot be completed. What it cannot say in words, because a
// body is half sent, it says by asking for the connection to be cut.
func (a *answer) breakOff(err *openai.Error) (cut bool) {
	switch {
	case !a.begun:
		a.fail(err)
	case a.events:
		// A client that is gone does not read it.
		_ = openai.WriteError(a.w, err)
	default:
		return true
	}
	return false
}

// finish adds the timing to an answer that is complete.
func (a *answer) finish(t *router.Timing) {
	switch {
	case t != nil:
		a.w.Header().Set(trailerTiming, serverTiming(*t))
	case a.readTiming != "":
		a.w.Header().Set(trailerTiming, a.readTiming)
	}
}

// serverTiming is the Server-Timing header, which is in milliseconds. // PIPE-27
func serverTiming(t router.Timing) string {
	var b strings.Builder
	for _, m := range []struct {
		name    string
		seconds float64
	}{
		{"prefill", t.Prefill}, {"transfer_hidden", t.Hidden}, {"transfer_exposed", t.Exposed},
	} {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(m.name + ";dur=" + strconv.FormatFloat(m.seconds*1000, 'f', 3, 64))
	}
	return b.String()
}
