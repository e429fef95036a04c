package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The router says that it is ready when a pair is, that it lives always.
func TestHealthAndReady(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		check := func(when string, status int, body string) {
			t.Helper()
			if a := w.get("/ready"); a.status != status || strings.TrimSpace(a.body) != body {
				t.Errorf("%s: /ready is %d %s", when, a.status, a.body)
			}
			if a := w.get("/health"); a.status != 200 {
				t.Errorf("%s: /health is %d", when, a.status)
			}
		}
		check("with a pair", 200, `{"ready":true}`)
		w.kill(w.prefill[0])
		w.pass(defaultPollInterval)
		check("without prefill", 503, `{"ready":false}`)
	})
}

// Models are those of ready engines, in the form of OpenAI's list.
func TestModels(t *testing.T) {
	inWorld(t, 1, 2, func(t *testing.T, w *world) {
		w.decode[1].set(func() { w.decode[1].ready.Model, w.decode[1].ready.Context = "another", 512 })
		w.pass(defaultPollInterval)
		type model struct {
			ID      string `json:"id"`
			Object  string `json:"object"`
			Created int64  `json:"created"`
			OwnedBy string `json:"owned_by"`
			Longest int    `json:"max_model_len"`
		}
		list := func() (ids []model) {
			t.Helper()
			var got struct {
				Object string   `json:"object"`
				Data   *[]model `json:"data"`
			}
			a := w.get("/v1/models")
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Object != "list" || got.Data == nil {
				t.Fatalf("models: %d %s (%v)", a.status, a.body, err)
			}
			return *got.Data
		}
		got := list()
		if len(got) != 2 || got[0].ID != "another" || got[1].ID != "kvferry-tiny" {
			t.Fatalf("models %+v", got)
		}
		if m := got[0]; m.Object != "model" || m.Created == 0 || m.OwnedBy != "kvferry" || m.Longest != 512 {
			t.Errorf("model %+v", m)
		}
		for _, f := range []*fakeEngine{w.prefill[0], w.decode[0], w.decode[1]} {
			w.kill(f)
		}
		w.pass(defaultPollInterval)
		if got := list(); len(got) != 0 {
			t.Errorf("models of no engine: %+v", got)
		}
	})
}

// /debug/state shows each engine with the state that it gives when asked, null if it gives none
// in time.
func TestState(t *testing.T) {
	inWorld(t, 2, 2, func(t *testing.T, w *world) {
		w.kill(w.prefill[1])
		w.kill(w.decode[1])
		w.host("d1:80", http.HandlerFunc(hangs))
		w.decode[0].set(func() { w.decode[0].state = "no JSON" })
		w.prefill[0].set(func() { w.prefill[0].serve = hangs })
		w.decode[0].set(func() { w.decode[0].serve = fails(time.Minute, 500, "") })
		go w.post(greeting)
		w.pass(pollTimeout + defaultPollInterval)
		a := w.get("/debug/state")
		want := `{"role":"router","engines":[` +
			`{"role":"prefill","url":"http://p0:80","pid":41,"ready":true,"state":{"role":"prefill","pool":{"total":7,"free":7}}},` +
			`{"role":"prefill","url":"http://p1:80","pid":41,"ready":false,"state":null},` +
			`{"role":"decode","url":"http://d0:80","pid":41,"ready":true,"state":null},` +
			`{"role":"decode","url":"http://d1:80","pid":41,"ready":false,"state":null}],` +
			`"requests":{"running":1}}`
		if strings.TrimSpace(a.body) != want || a.status != 200 {
			t.Errorf("state %d\n%s\nwant\n%s", a.status, a.body, want)
		}
		if a.took != stateTimeout {
			t.Errorf("took %v, want the time-out of the engine that hangs, %v", a.took, stateTimeout)
		}
		w.pass(time.Minute)
	})
}

// A router that drains finishes what runs, and takes nothing new.
// case: 16
func TestDrain(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.decode[0].serve = decodeStream(10, time.Second, sendsDone)
		running := make(chan answerOf)
		go func() { running <- w.post(greeting) }()
		w.pass(1500 * time.Millisecond)
		w.router.Drain()
		w.router.Drain()
		a := w.post(greeting)
		if message, _ := a.errorBody(t); a.status != 503 || !strings.Contains(message, "shutting down") {
			t.Errorf("a new request: status %d: %s", a.status, message)
		}
		if a := w.get("/ready"); a.status != 503 {
			t.Errorf("/ready is %d", a.status)
		}
		if a := w.get("/health"); a.status != 200 {
			t.Errorf("/health is %d", a.status)
		}
		if a := <-running; a.status != 200 || a.err != nil || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Errorf("the running request: status %d (%v): %q", a.status, a.err, a.body)
		}
		w.asked(w.decode[0], false)
	})
}

// The metrics of engines, whose names dashboards rely on.
func TestMetrics(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.kill(w.prefill[0])
		w.pass(defaultPollInterval)
		w.settle()
		a := w.get("/metrics")
		for _, line := range []string{
			`kvferry_router_engine_up{role="decode",url="http://d0:80"} 1`,
			`kvferry_router_engine_up{role="prefill",url="http://p0:80"} 0`,
			`kvferry_router_leg_failures_total{role="decode"} 0`,
			`kvferry_router_requests_in_flight 0`,
			`kvferry_router_first_byte_seconds_count 0`,
		} {
			if !strings.Contains(a.body, line+"\n") {
				t.Errorf("no line %s in\n%s", line, a.body)
			}
		}
	})
}
