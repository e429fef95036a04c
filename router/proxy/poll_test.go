package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// An engine is chosen from the first poll that finds it ready, and not from one that does not.
func TestPollsDecideWhoIsChosen(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fakeEngine)
		why    string
	}{
		"not ready":      {func(f *fakeEngine) { f.ready.Ready, f.readyStatus = false, 503 }, "is not ready"},
		"503 alone":      {func(f *fakeEngine) { f.readyStatus = 503 }, "is not ready"},
		"200 alone":      {func(f *fakeEngine) { f.ready.Ready = false }, "is not ready"},
		"draining":       {func(f *fakeEngine) { f.ready.Draining, f.readyStatus = true, 503 }, "is draining"},
		"another role":   {func(f *fakeEngine) { f.ready.Role = "prefill" }, "answers as role"},
		"another status": {func(f *fakeEngine) { f.readyStatus = 404 }, "with status 404"},
		"no life":        {func(f *fakeEngine) { f.ready.Life = "" }, "reports no life"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 2, func(t *testing.T, w *world) {
				if got := w.ready(); got != "p0 d0 d1" {
					t.Fatalf("ready after the first poll: %s", got)
				}
				f := w.decode[0]
				before := f.ready
				f.set(func() { tc.change(f) })
				w.pass(defaultPollInterval)
				if got := w.ready(); got != "p0 d1" {
					t.Errorf("ready: %s", got)
				}
				if e := w.router.engines()[1]; !strings.Contains(e.Why, tc.why) {
					t.Errorf("why not: %q, want %q", e.Why, tc.why)
				}
				for range 4 {
					w.post(greeting)
				}
				w.untouched(f)
				f.set(func() { f.ready, f.readyStatus = before, 200 })
				w.pass(defaultPollInterval)
				if got := w.ready(); got != "p0 d0 d1" {
					t.Errorf("ready again: %s", got)
				}
			})
		})
	}
}

// An engine that dies under a request is not chosen from then on, before any poll of its turn,
// until another life answers at its address.
// req: SERVE-04
func TestDeadEngineIsOutAtOnceAndBackAsAnotherLife(t *testing.T) {
	inWorld(t, 1, 2, func(t *testing.T, w *world) {
		w.kill(w.decode[0])
		w.kill(w.decode[1])
		w.run(w.decode[1]) // its connections are cut, but it lives
		if a := w.post(greeting); a.status != 502 {
			t.Fatalf("status %d from a dead engine: %s", a.status, a.body)
		}
		if got := w.ready(); got != "p0 d1" {
			t.Errorf("ready: %s", got)
		}
		for range 3 {
			if a := w.post(greeting); a.status != 200 {
				t.Errorf("status %d while d1 is ready: %s", a.status, a.body)
			}
		}
		w.decode[0].ready.Life, w.decode[0].ready.PID = "another", 42
		w.run(w.decode[0])
		w.pass(defaultPollInterval)
		if got := w.ready(); got != "p0 d0 d1" {
			t.Errorf("ready after the restart: %s", got)
		}
		if e := w.router.engines()[1]; e.Report.Life != "another" || e.Report.PID != 42 {
			t.Errorf("engine after the restart: %+v", e)
		}
		if !strings.Contains(w.log.String(), "engine has a new life") {
			t.Errorf("the new life is not logged:\n%s", w.log)
		}
	})
}

// An engine that accepts connections and says nothing is out when the poll's time is up, and
// delays nobody else's poll.
func TestSilentEngine(t *testing.T) {
	inWorld(t, 1, 2, func(t *testing.T, w *world) {
		w.kill(w.decode[0])
		w.host("d0:80", http.HandlerFunc(hangs))
		w.pass(pollTimeout + defaultPollInterval)
		if got := w.ready(); got != "p0 d1" {
			t.Errorf("ready: %s", got)
		}
		w.decode[1].set(func() { w.decode[1].polls = 0 })
		w.pass(4 * defaultPollInterval)
		w.settle()
		w.decode[1].set(func() {
			if w.decode[1].polls != 4 {
				t.Errorf("d1 was polled %d times in 4 intervals", w.decode[1].polls)
			}
		})
	})
}

// The address that decode is told is one that it can connect to.
func TestAgentAddr(t *testing.T) {
	for _, tc := range []struct{ agent, url, want string }{
		{"10.0.0.1:9", "http://p:80", "10.0.0.1:9"},
		{"host:9", "http://p:80", "host:9"},
		{"0.0.0.0:9", "http://p:80", "p:9"},
		{"[::]:9", "http://p:80", "p:9"},
		{":9", "http://10.1.1.1:80", "10.1.1.1:9"},
		{"[::]:9", "http://[fd00::1]:80", "[fd00::1]:9"},
		{"[::1]:9", "http://p:80", "[::1]:9"},
		{"", "http://p:80", ""},
		{"host", "http://p:80", ""},
		{"host:", "http://p:80", ""},
		{":0", "http://p:80", ""},
	} {
		got, err := agentAddr(tc.agent, tc.url)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("agent %q of %s: %q (%v), want %q", tc.agent, tc.url, got, err, tc.want)
		}
	}
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].set(func() { w.prefill[0].ready.Agent = "nowhere" })
		w.pass(defaultPollInterval)
		if got := w.ready(); got != "d0" {
			t.Errorf("ready without an agent address: %s", got)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	p, d := []string{"p:1"}, []string{"http://d:1/"}
	for name, tc := range map[string]struct {
		cfg  Config
		says string
	}{
		"no prefill":   {Config{Decode: d}, "no prefill engine"},
		"no decode":    {Config{Prefill: p}, "no decode engine"},
		"twice":        {Config{Prefill: []string{"p:1", "http://p:1"}, Decode: d}, "given twice"},
		"both roles":   {Config{Prefill: p, Decode: p}, "given twice"},
		"a path":       {Config{Prefill: []string{"http://p:1/v1"}, Decode: d}, "nothing else"},
		"a user":       {Config{Prefill: []string{"http://u@p:1"}, Decode: d}, "nothing else"},
		"no host":      {Config{Prefill: []string{"http://:1"}, Decode: d}, "no host"},
		"empty":        {Config{Prefill: []string{""}, Decode: d}, "no host"},
		"a scheme":     {Config{Prefill: []string{"ftp://p:1"}, Decode: d}, "ftp"},
		"not a URL":    {Config{Prefill: []string{"http://p:x"}, Decode: d}, "want http://host:port"},
		"the interval": {Config{Prefill: p, Decode: d, PollInterval: -1}, "poll interval"},
	} {
		if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want %q", name, err, tc.says)
		}
	}
	r, err := New(Config{Prefill: p, Decode: d})
	if err != nil {
		t.Fatal(err)
	}
	if e := r.engines(); e[0].URL != "http://p:1" || e[1].URL != "http://d:1" {
		t.Errorf("engines %v", e)
	}
}

// A life that vanished with its host leaves connections behind that look alive. The next poll
// finds the life that took its place, and none of them is used any more.
// req: SERVE-04
func TestConnectionsOfAVanishedLifeAreNotUsed(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		old := w.decode[0]
		old.set(func() { old.serve = replies(100*time.Millisecond, "{}") })
		var wg sync.WaitGroup
		for range 4 { // at once, so that as many connections are kept
			wg.Go(func() { w.post(greeting) })
		}
		wg.Wait()
		old.set(func() { old.vanished = true })
		young := newFakeEngine("decode", old.addr)
		young.ready.Life = "another"
		w.run(young)
		w.pass(defaultPollInterval)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a := w.do(w.request(ctx, "POST", "/v1/completions", greeting)); a.status != 200 {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		w.asked(young, false)
	})
}

// Whatever proxy the environment names, engines are spoken to directly.
func TestNoProxyFromEnvironment(t *testing.T) {
	// The environment is read once a process, so that setting it here would prove nothing.
	if tr := newClient(nil, true).Transport.(*http.Transport); tr.Proxy != nil {
		t.Error("the client for engines has a proxy")
	}
}
