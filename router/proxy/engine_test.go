package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"kvferry/openai/httpapi"
)

// call is what an engine was asked.
type call struct {
	path   string
	header http.Header
	body   string
}

// disagg is the field that the router added.
func (c call) disagg() (d struct {
	RequestType     string `json:"request_type"`
	RequestID       string `json:"disagg_request_id"`
	ScheduleStyle   int    `json:"schedule_style"`
	CtxInfoEndpoint string `json:"ctx_info_endpoint"`
},
) {
	var body struct {
		Disagg *json.RawMessage `json:"disaggregated_params"`
	}
	if json.Unmarshal([]byte(c.body), &body) == nil && body.Disagg != nil {
		_ = json.Unmarshal(*body.Disagg, &d)
	}
	return d
}

// fakeEngine is an engine of which only the HTTP side is real.
type fakeEngine struct {
	role  string
	addr  string
	state string

	mu sync.Mutex
	// ready is the answer to GET /ready, with readyStatus.
	ready       readyBody
	readyStatus int
	serve       http.HandlerFunc
	calls       []call
	// released are the handles that it was told to let go of, asked the questions how it is.
	released  []call
	asked     []call
	polls     int
	cancelled int
	// vanished engines accept and never answer, as if their host were cut off.
	vanished bool
}

func newFakeEngine(role, addr string) *fakeEngine {
	f := &fakeEngine{
		role: role, addr: addr, state: `{"role":"` + role + `","pool":{"total":7,"free":7}}`,
		ready: readyBody{
			Ready: true, Role: role, PID: 41, Life: addr + "-1", Model: "kvferry-tiny", Agent: "0.0.0.0:9", Context: 8192,
		},
		readyStatus: http.StatusOK,
	}
	f.serve = prefillOK(0)
	if role == "decode" {
		f.serve = decodeJSON(`{"choices":[]}`)
	}
	return f
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	vanished := f.vanished
	f.mu.Unlock()
	if vanished {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the router leaves
		hangs(w, r)
		return
	}
	switch r.URL.Path {
	case httpapi.PathRelease:
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.released = append(f.released, call{path: r.Method, header: r.Header.Clone(), body: string(body)})
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case "/ready":
		f.mu.Lock()
		f.asked = append(f.asked, call{path: r.URL.Path, header: r.Header.Clone()})
		body, status := f.ready, f.readyStatus
		f.polls++
		f.mu.Unlock()
		httpapi.WriteJSON(w, status, body)
	case "/debug/state":
		f.mu.Lock()
		f.asked = append(f.asked, call{path: r.URL.Path, header: r.Header.Clone()})
		f.mu.Unlock()
		_, _ = io.WriteString(w, f.state)
	default:
		f.complete(w, r)
	}
}

func (f *fakeEngine) complete(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.calls = append(f.calls, call{path: r.URL.Path, header: r.Header.Clone(), body: string(body)})
	serve := f.serve
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Context().Err() != nil {
			f.cancelled++
		}
	}()
	serve(w, r)
}

// set changes the engine while it runs.
func (f *fakeEngine) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// seen gives the calls so far and how many of them were given up by the router.
func (f *fakeEngine) seen() (calls []call, cancelled int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]call(nil), f.calls...), f.cancelled
}

// pause waits, unless the router gives the request up.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// prefillOK replies after d.
func prefillOK(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !pause(r.Context(), d) {
			return
		}
		_, _ = io.WriteString(w, `{"kvferry":{"prefill_seconds":0.25,"transfer_seconds":0.06,`+
			`"hidden_seconds":0.05,"exposed_seconds":0.0125,"bytes":1024,"slices":3},"usage":{"prompt_tokens":5}}`)
	}
}

// fails answers with an error after d.
func fails(d time.Duration, status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !pause(r.Context(), d) {
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// dies cuts the connection after d, with whatever was written before.
func dies(d time.Duration) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		if pause(r.Context(), d) {
			panic(http.ErrAbortHandler)
		}
	}
}

// hangs never answers.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// decodeJSON answers at once with a body.
func decodeJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "the engine's own")
		w.Header().Set("X-Engine", "d")
		_, _ = io.WriteString(w, body)
	}
}

// event is the n-th event of decodeStream.
func event(n int) string { return fmt.Sprintf("data: {\"n\":%d}\n\n", n) }

// decodeStream sends n events, one every gap, then what last does.
func decodeStream(n int, gap time.Duration, last http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for i := range n {
			_, _ = io.WriteString(w, event(i))
			_ = http.NewResponseController(w).Flush()
			if !pause(r.Context(), gap) {
				return
			}
		}
		last(w, r)
	}
}

// sendsDone ends a stream as it should end.
func sendsDone(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data: [DONE]\n\n") }
