package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// onTCP starts a router and one engine of each role on loopback.
func onTCP(t *testing.T, prefill, decode http.HandlerFunc) (*Router, *httptest.Server) {
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
func until(t *testing.T, cond func() bool) {
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

// Many requests at once over real sockets, each with its own answer.
func TestManyAtOnce(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+r.Header.Get("X-Request-Id")+"\n\n")
	}
	r, srv := onTCP(t, prefillOK(0), echo)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 8 {
				id := fmt.Sprintf("request-%d-%d", i, j)
				req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/v1/completions", strings.NewReader(greeting))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Request-Id", id)
				resp, err := srv.Client().Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if string(body) != "data: "+id+"\n\n" || err != nil || resp.Trailer.Get("Server-Timing") != wantTiming {
					t.Errorf("%s got %q (%v), trailer %v", id, body, err, resp.Trailer)
				}
			}
		})
	}
	wg.Wait()
	until(t, func() bool { return r.running.Load() == 0 })
}

// A client that leaves only half, and reads nothing, does not hold the router or the engines.
// case: 13
func TestClientThatNeitherReadsNorCloses(t *testing.T) {
	gone := make(chan struct{})
	flood := func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		line := []byte("data: " + strings.Repeat("x", 1<<16) + "\n\n")
		for r.Context().Err() == nil {
			_, _ = w.Write(line)
		}
	}
	r, srv := onTCP(t, prefillOK(0), flood)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(greeting), greeting)
	head := make([]byte, len("HTTP/1.1 200 OK"))
	if _, err := io.ReadFull(conn, head); err != nil || !bytes.HasSuffix(head, []byte("200 OK")) {
		t.Fatalf("answer begins %q (%v)", head, err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-gone
	until(t, func() bool { return r.running.Load() == 0 })
}
