package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// onTCP starts a router and one engine of each role on loopback.
func onTCP(t testing.TB, prefill, decode http.HandlerFunc) (*Router, *httptest.Server) {
	t.Helper()
	p, d := newFakeEngine("prefill", "p"), newFakeEngine("decode", "d")
	p.serve, d.serve = prefill, decode
	var urls []string
	for _, f := range []*fakeEngine{p, d} {
		srv := httptest.NewServer(f)
		t.Cleanup(srv.Close)
		urls = append(urls, srv.URL)
	}
	r, err := New(Config{Prefill: urls[:1], Decode: urls[1:], PollInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var polling sync.WaitGroup
	polling.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		polling.Wait()
	})
	srv := httptest.NewServer(r.Handler())
	t.Cleanup(srv.Close)
	until(t, r.ready)
	return r, srv
}

// until waits for a condition that sockets bring about.
func until(t testing.TB, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the condition did not come about")
		}
	}
}

// The router over real sockets: each client has its own answer. (What it does when is for the
// tests in synctest's time.)
func TestOverTCP(t *testing.T) {
	r, srv := onTCP(t, prefillOK(0), echoID)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 8 {
				checkEcho(t, srv.Client(), srv.URL, fmt.Sprintf("request-%d-%d", i, j))
			}
		})
	}
	wg.Wait()
	until(t, func() bool { return r.running.Load() == 0 })
}

// Many requests at once, on several engines.
func TestManyAtOnce(t *testing.T) {
	inWorld(t, 2, 3, func(t *testing.T, w *world) {
		for _, f := range w.prefill {
			f.serve = prefillOK(100 * time.Millisecond)
		}
		for _, f := range w.decode {
			f.serve = echoID
		}
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for j := range 8 {
					trailer := checkEcho(t, w.client, "http://router:80", fmt.Sprintf("request-%d-%d", i, j))
					if got := trailer.Get("Server-Timing"); got != wantTiming {
						t.Errorf("timing %q, want %q", got, wantTiming)
					}
				}
			})
		}
		wg.Wait()
		w.ended(outcomeOK, 200, 32*8)
	})
}

// echoID streams the request's ID.
func echoID(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: "+r.Header.Get("X-Request-Id")+"\n\n")
}

func checkEcho(t testing.TB, client *http.Client, url, id string) http.Header {
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/completions", strings.NewReader(greeting))
	if err != nil {
		t.Error(err)
		return nil
	}
	req.Header.Set("X-Request-Id", id)
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if string(body) != "data: "+id+"\n\n" || err != nil {
		t.Errorf("%s got %d %q (%v)", id, resp.StatusCode, body, err)
	}
	return resp.Trailer
}

// BenchmarkRequest is a whole request over loopback with engines that answer at once: what the
// router adds, and two HTTP servers.
func BenchmarkRequest(b *testing.B) {
	_, srv := onTCP(b, prefillOK(0), echoID)
	for b.Loop() {
		checkEcho(b, srv.Client(), srv.URL, "id")
	}
}
