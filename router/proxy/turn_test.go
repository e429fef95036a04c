package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kvferry/openai/httpapi"
	"kvferry/router"
)

var withTurns = router.Config{ScheduleStyle: router.ContextFirst, Turns: 8}

// holds is a decode engine that answers, as a stream or not, and then holds the turn under a
// handle.
func holds(stream bool, handle string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Kvferry-Kv-Transfer")
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, event(0))
			sendsDone(w, r)
		} else {
			_, _ = io.WriteString(w, `{"choices":[]}`)
		}
		w.Header().Set("X-Kvferry-Kv-Transfer", handle)
	}
}

func chatBody(contents ...string) string {
	for i, s := range contents {
		contents[i] = fmt.Sprintf(`{"role":"user","content":%q}`, s)
	}
	return `{"model":"kvferry-tiny","messages":[` + strings.Join(contents, ",") + `]}`
}

func (w *world) chat(contents ...string) answerOf {
	w.t.Helper()
	return w.do(w.request(w.t.Context(), "POST", "/v1/chat/completions", chatBody(contents...)))
}

// lastCall is what an engine was asked last.
func (w *world) lastCall(f *fakeEngine) string {
	calls, _ := f.seen()
	if len(calls) == 0 {
		return ""
	}
	return calls[len(calls)-1].body
}

// The handle of a turn's KV goes to the prefill engine of the next turn, and the same decode
// engine is asked. The client sees nothing of it.
// req: LEASE-20
func TestNextTurnKnowsTheLast(t *testing.T) {
	for name, stream := range map[string]bool{"stream": true, "body": false} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: withTurns}, 1, 3, func(t *testing.T, w *world) {
				w.prefill[0].serve = hands(0, theHandle)
				for i, f := range w.decode {
					f.serve = holds(stream, fmt.Sprintf(`{"do_remote_prefill":true,"do_remote_decode":false,"d":%d.0}`, i))
				}
				history := []string{secret}
				for turn := range 3 {
					a := w.chat(append([]string(nil), history...)...)
					if a.status != 200 || a.err != nil {
						t.Fatalf("status %d (%v): %s", a.status, a.err, a.body)
					}
					for where, h := range map[string]http.Header{"header": a.header, "trailer": a.trailer} {
						if h.Get("X-Kvferry-Kv-Transfer") != "" || strings.Contains(h.Get("Trailer"), "Kvferry") {
							t.Errorf("the client got the handle in its %s: %v", where, h)
						}
					}
					want := `"do_remote_decode":true,"do_remote_prefill":false`
					if turn > 0 {
						want = `"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":true,"d":0.0}`
					}
					if got := w.lastCall(w.prefill[0]); !strings.Contains(got, want) {
						t.Errorf("turn %d: prefill got %s, want %s", turn, got, want)
					}
					history = append(history, "answer", "next")
				}
				if calls, _ := w.decode[0].seen(); len(calls) != 3 {
					t.Errorf("the decode engine was asked %d times, want 3", len(calls))
				}
				w.untouched(w.decode[1], w.decode[2])
			})
		})
	}
}

// A holder that is another life has nothing any more; one that only cannot be chosen may still be
// read from.
// req: LEASE-20
func TestTurnOfAnEngineThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *fakeEngine)
		named  bool
	}{
		"another life": {func(f *fakeEngine) { f.ready.Life = "another" }, false},
		"draining":     {func(f *fakeEngine) { f.ready.Draining, f.readyStatus = true, 503 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: withTurns}, 1, 2, func(t *testing.T, w *world) {
				w.prefill[0].serve = hands(0, theHandle)
				w.decode[0].serve = holds(false, `{"of":"d0"}`)
				w.chat("hello")
				w.decode[0].set(func() { tc.change(w.decode[0]) })
				w.pass(time.Second)
				w.chat("hello", "answer", "next")
				if got := strings.Contains(w.lastCall(w.prefill[0]), `"of":"d0"`); got != tc.named {
					t.Errorf("prefill got the handle: %v, want %v", got, tc.named)
				}
				if calls, _ := w.decode[1].seen(); tc.named && len(calls) != 1 {
					t.Errorf("the other engine was asked %d times", len(calls))
				}
			})
		})
	}
}

// The longest trailer is read; what is no handle, or comes where turns are not remembered, does
// no harm to an answer.
func TestTrailers(t *testing.T) {
	long := `{"x":"` + strings.Repeat("a", httpapi.MaxTurn-8) + `"}`
	for name, tc := range map[string]struct {
		cfg    router.Config
		handle string
		named  bool
	}{
		"longest":        {withTurns, long, true},
		"no object":      {withTurns, `[1]`, false},
		"no JSON":        {withTurns, `{"x":`, false},
		"none":           {withTurns, ``, false},
		"not remembered": {pull, `{"x":1}`, false},
		"pushed":         {router.Config{Turns: 8}, `{"x":1}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: tc.cfg}, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve = hands(0, theHandle)
				w.decode[0].serve = holds(false, tc.handle)
				for _, history := range [][]string{{"hello"}, {"hello", "answer", "next"}} {
					if a := w.chat(history...); a.status != 200 || a.err != nil || a.body != `{"choices":[]}` {
						t.Errorf("status %d (%v): %s", a.status, a.err, a.body)
					}
				}
				if got := strings.Contains(w.lastCall(w.prefill[0]), `"x":`); got != tc.named {
					t.Errorf("prefill got the handle: %v, want %v", got, tc.named)
				}
			})
		})
	}
}
