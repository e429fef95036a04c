package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const tooLong = `{"error":{"message":"prompt is 8193 tokens long and the limit is 8192 tokens",` +
	`"type":"invalid_request_error","param":"prompt","code":"context_length_exceeded"}}`

// upstream is an engine's error body with a reason.
func upstream(reason string) string {
	return `{"error":{"message":"` + reason + `","type":"upstream_error","param":null,"code":null}}`
}

// A prefill engine that fails before decode answers ends the request at once on both engines,
// and the client has the status and the reason. Nothing is posted twice.
// case: 08, 10, 11, 17
func TestPrefillFails(t *testing.T) {
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		status int
		says   string
		// whole says that the body is the engine's as it is.
		whole string
		lost  bool
	}{
		"too long":        {serve: fails(100*time.Millisecond, 400, tooLong), status: 400, whole: tooLong},
		"busy":            {serve: fails(100*time.Millisecond, 429, upstream("later")), status: 429, says: "later"},
		"transfer failed": {serve: fails(100*time.Millisecond, 502, upstream("slice 3: no route to host")), status: 502, says: "prefill engine: slice 3: no route to host"},
		"internal":        {serve: fails(100*time.Millisecond, 500, "panic"), status: 502, says: "prefill engine: panic"},
		"no room":         {serve: fails(100*time.Millisecond, 503, upstream("queue is full")), status: 503, says: "prefill engine: queue is full"},
		"timeout":         {serve: fails(100*time.Millisecond, 504, upstream("kv_transfer_timeout")), status: 504, says: "prefill engine: kv_transfer_timeout"},
		"redirects":       {serve: redirects(100 * time.Millisecond), status: 502, says: "prefill engine: "},
		"no JSON":         {serve: replies(100*time.Millisecond, "<html>"), status: 502, says: "prefill engine: the reply is not JSON"},
		"dies":            {serve: dies(100 * time.Millisecond), status: 502, says: "the connection to the prefill engine was lost", lost: true},
		"dies in reply":   {serve: replies(100*time.Millisecond, "{", dies(0)), status: 502, says: "the connection to the prefill engine was lost", lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve, w.decode[0].serve = tc.serve, hangs
				checkFailed(t, w.post(greeting), tc.status, tc.says, tc.whole, 100*time.Millisecond)
				w.asked(w.prefill[0], false)
				w.asked(w.decode[0], true)
				w.ended(outcomeFailed, tc.status)
				checkLegFailures(t, w, 1, 0)
				checkTakenOut(t, w, tc.lost, "engine is not ready\" role=prefill")
			})
		})
	}
}

// A decode engine that fails before its headers likewise; when its failure may be the echo of
// the prefill engine's, that one has 200 ms to speak.
// case: 10, 11, 17
func TestDecodeFails(t *testing.T) {
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		status int
		says   string
		whole  string
		lost   bool
		took   time.Duration
	}{
		"too long":        {serve: fails(100*time.Millisecond, 400, tooLong), status: 400, whole: tooLong, took: 100 * time.Millisecond},
		"no room":         {serve: fails(100*time.Millisecond, 503, upstream("no free block")), status: 503, says: "decode engine: no free block", took: 100 * time.Millisecond},
		"dies":            {serve: dies(100 * time.Millisecond), status: 502, says: "the connection to the decode engine was lost", lost: true, took: 100 * time.Millisecond},
		"transfer failed": {serve: fails(100*time.Millisecond, 502, upstream("load failed")), status: 502, says: "decode engine: load failed", took: 300 * time.Millisecond},
		"timeout":         {serve: fails(100*time.Millisecond, 504, upstream("kv_transfer_timeout")), status: 504, says: "decode engine: kv_transfer_timeout", took: 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve, w.decode[0].serve = hangs, tc.serve
				checkFailed(t, w.post(greeting), tc.status, tc.says, tc.whole, tc.took)
				w.asked(w.prefill[0], true)
				w.asked(w.decode[0], false)
				w.ended(outcomeFailed, tc.status)
				checkLegFailures(t, w, 0, 1)
				checkTakenOut(t, w, tc.lost, "engine is not ready\" role=decode")
			})
		})
	}
}

// When both fail, the client is told the failure that names the cause.
// case: 08, 11
func TestBothFail(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].serve = fails(150*time.Millisecond, 400, tooLong)
		w.decode[0].serve = fails(100*time.Millisecond, 502, upstream("the prefill engine gave the request up"))
		checkFailed(t, w.post(greeting), 400, "", tooLong, 150*time.Millisecond)
		w.asked(w.prefill[0], false)
		w.asked(w.decode[0], false)
		checkLegFailures(t, w, 1, 1)
	})
}

func checkFailed(t *testing.T, a answerOf, status int, says, whole string, took time.Duration) {
	t.Helper()
	if a.status != status || a.err != nil {
		t.Errorf("status %d (%v), want %d: %s", a.status, a.err, status, a.body)
	}
	if message, _ := a.errorBody(t); !strings.HasPrefix(message, says) {
		t.Errorf("message %q, want %q", message, says)
	}
	if whole != "" && a.body != whole {
		t.Errorf("body\n%s\nwant the engine's own\n%s", a.body, whole)
	}
	if a.took != took {
		t.Errorf("the client waited %v, want %v", a.took, took)
	}
}

func checkLegFailures(t *testing.T, w *world, prefill, decode int) {
	t.Helper()
	w.settle()
	got := strings.Join(w.metrics("kvferry_router_leg_failures_total"), "\n")
	want := `kvferry_router_leg_failures_total{role="decode"} ` + string(rune('0'+decode)) + "\n" +
		`kvferry_router_leg_failures_total{role="prefill"} ` + string(rune('0'+prefill))
	if got != want {
		t.Errorf("leg failures\n%s\nwant\n%s", got, want)
	}
}

// checkTakenOut looks for the engine's being taken out: the poll that follows at once has
// brought it back already, since the engine still answers polls.
func checkTakenOut(t *testing.T, w *world, want bool, line string) {
	t.Helper()
	if got := strings.Contains(w.log.String(), line); got != want {
		t.Errorf("engine taken out: %v, want %v\n%s", got, want, w.log)
	}
	if got := w.ready(); got != "p0 d0" {
		t.Errorf("ready at last: %s", got)
	}
}

// replies sends a body that may not be what it should, and then does what last does.
func replies(d time.Duration, body string, last ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !pause(r.Context(), d) {
			return
		}
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
		for _, f := range last {
			f(w, r)
		}
	}
}

// redirects sends the request elsewhere, which would be a second try.
func redirects(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://p0:80/v1/completions")
		fails(d, http.StatusTemporaryRedirect, "")(w, r)
	}
}

// A prefill engine that fails after decode has begun to answer does not cut the answer.
func TestPrefillFailsUnderAStream(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].serve = dies(100 * time.Millisecond)
		w.decode[0].serve = decodeStream(4, 50*time.Millisecond, sendsDone)
		a := w.post(greeting)
		if want := event(0) + event(1) + event(2) + event(3) + "data: [DONE]\n\n"; a.body != want || a.err != nil {
			t.Errorf("stream %q (%v), want %q", a.body, a.err, want)
		}
		w.asked(w.decode[0], false)
		w.ended(outcomeOK, 200)
		checkLegFailures(t, w, 1, 0)
	})
}

// A stream that breaks off ends, for the client, after its last whole event with an event that
// says so, and without the mark of a complete answer.
// case: 11
func TestStreamBreaksOff(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `data: {"n":`)
		dies(0)(w, r)
	}
	long := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: "+strings.Repeat("x", maxEvent))
	}
	for name, tc := range map[string]struct {
		last http.HandlerFunc
		says string
		lost bool
	}{
		"between events":    {dies(0), "the connection to the decode engine was lost", true},
		"within an event":   {half, "the connection to the decode engine was lost", true},
		"an event too long": {long, "decode engine: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve = hangs // so that its being given up shows
				w.decode[0].serve = decodeStream(2, 50*time.Millisecond, tc.last)
				a := w.post(greeting)
				events, last, _ := strings.Cut(a.body, `data: {"error":`)
				if events != event(0)+event(1) || !strings.Contains(last, tc.says) || !strings.HasSuffix(last, "}\n\n") || a.err != nil {
					t.Errorf("stream %.300q (%v), want two events and an error that says %q", a.body, a.err, tc.says)
				}
				if strings.Contains(a.body, "[DONE]") {
					t.Errorf("a broken stream ends as if complete: %.300q", a.body)
				}
				w.asked(w.prefill[0], true)
				w.ended(outcomeBroken, 200)
				checkTakenOut(t, w, tc.lost, "engine is not ready\" role=decode")
			})
		})
	}
}

// A body that breaks off before any of it was passed on is a 502; after that the connection is
// cut, so that no client takes half an answer for a whole one.
func TestBodyBreaksOff(t *testing.T) {
	for name, tc := range map[string]struct {
		size  int
		fails bool
	}{
		"short": {100, false},
		"long":  {chunk + 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.decode[0].serve = replies(0, strings.Repeat("x", tc.size), dies(0))
				a := w.post(greeting)
				if tc.fails {
					if a.status != 200 || !errors.Is(a.err, io.ErrUnexpectedEOF) {
						t.Errorf("status %d, %d bytes, error %v; want the body to break off", a.status, len(a.body), a.err)
					}
					w.ended(outcomeBroken, 200)
					return
				}
				if message, _ := a.errorBody(t); a.status != 502 || !strings.Contains(message, "decode engine was lost") {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				w.ended(outcomeBroken, 502)
			})
		})
	}
}
