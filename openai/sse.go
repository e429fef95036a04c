package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ContentTypeSSE is the media type of a stream.
const ContentTypeSSE = "text/event-stream"

// done is the payload that ends a stream.
const done = "[DONE]"

// ErrEventTooLong says that a line or an event of a stream exceeds the reader's limit.
var ErrEventTooLong = errors.New("openai: stream event is too long")

// WriteEvent writes a payload as one event, in one Write. A payload of several lines becomes
// several data lines, which a reader joins with newlines.
func WriteEvent(w io.Writer, payload []byte) error {
	out := make([]byte, 0, len(payload)+8)
	for {
		end := bytes.IndexAny(payload, "\r\n")
		line := payload
		if end >= 0 {
			line = payload[:end]
		}
		out = append(out, "data: "...)
		out = append(out, line...)
		out = append(out, '\n')
		if end < 0 {
			break
		}
		if bytes.HasPrefix(payload[end:], []byte("\r\n")) {
			end++
		}
		payload = payload[end+1:]
	}
	_, err := w.Write(append(out, '\n'))
	return err
}

// WriteDone writes the mark that ends a stream.
func WriteDone(w io.Writer) error { return WriteEvent(w, []byte(done)) }

// WriteError writes the event that ends a stream which failed. No end mark follows it.
func WriteError(w io.Writer, e *Error) error { return WriteEvent(w, e.Body()) }

// Event is one event of a stream.
type Event struct {
	// Name is the event field; OpenAI's streams have none.
	Name string
	// Data is the payload; the caller may keep it.
	Data []byte
}

// Done says that this is the mark that ends a stream.
func (e Event) Done() bool { return string(e.Data) == done }

// Reader reads a stream of events. It takes lines ended by LF or CRLF, several data lines in an
// event, and passes over comments and unknown fields.
type Reader struct {
	r     *bufio.Reader
	limit int
	line  []byte
}

// NewReader reads events of at most limit bytes, lines likewise.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReader(r), limit: limit}
}

// Next gives the next event that has data. It returns io.EOF when the stream ends between
// events, and io.ErrUnexpectedEOF when it ends within one.
func (r *Reader) Next() (Event, error) {
	var ev Event
	began := false
	for {
		line, err := r.readLine()
		if err == io.EOF && (began || len(line) > 0) {
			return Event{}, io.ErrUnexpectedEOF
		}
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if ev.Data != nil {
				return ev, nil
			}
			ev, began = Event{}, false
			continue
		}
		began = began || line[0] != ':'
		if err := r.field(&ev, line); err != nil {
			return Event{}, err
		}
	}
}

// field adds a line to an event.
func (r *Reader) field(ev *Event, line []byte) error {
	name, val, _ := bytes.Cut(line, []byte(":"))
	val = bytes.TrimPrefix(val, []byte(" "))
	switch string(name) {
	case "event":
		ev.Name = string(val)
	case "data":
		if ev.Data == nil {
			ev.Data = []byte{}
		} else {
			ev.Data = append(ev.Data, '\n')
		}
		ev.Data = append(ev.Data, val...)
		if len(ev.Data) > r.limit {
			return fmt.Errorf("%w: more than %d bytes", ErrEventTooLong, r.limit)
		}
	}
	return nil
}

// readLine gives a line without its end, valid until the next call. With io.EOF it gives what
// was read of a line that has no end.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		r.line = append(r.line, part...)
		if len(r.line) > r.limit+len("data: \r\n") {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrEventTooLong, r.limit)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return r.line, err
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(r.line, []byte("\n")), []byte("\r")), nil
	}
}
