package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// secret is in every prompt of these tests, and in no log line.
const secret = "the-secret-of-the-prompt"

// greeting is a fit request.
const greeting = `{"model":"kvferry-tiny","prompt":"` + secret + `"}`

// world is a router with engines and a client on a network in memory, in a synctest bubble.
type world struct {
	t       *testing.T
	net     *memNet
	router  *Router
	client  *http.Client
	hosts   map[string]*memHost
	prefill []*fakeEngine
	decode  []*fakeEngine
	log     *logBuffer
}

// inWorld runs a test in a world of p prefill and d decode engines that are ready and polled.
func inWorld(t *testing.T, p, d int, test func(t *testing.T, w *world)) {
	t.Helper()
	inWorldOf(t, Config{}, p, d, test)
}

// inWorldOf is inWorld with settings.
func inWorldOf(t *testing.T, cfg Config, p, d int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cfg, p, d)
		w.settle()
		test(t, w)
	})
}

func newWorld(t *testing.T, cfg Config, p, d int) *world {
	w := &world{t: t, net: newMemNet(), hosts: map[string]*memHost{}, log: &logBuffer{}}
	// net/http's server lets a connection that it closes linger for a while.
	t.Cleanup(func() { <-time.After(time.Second) })
	for i := range p {
		w.prefill = append(w.prefill, newFakeEngine("prefill", fmt.Sprintf("p%d:80", i)))
		cfg.Prefill = append(cfg.Prefill, w.prefill[i].addr)
		w.run(w.prefill[i])
	}
	for i := range d {
		w.decode = append(w.decode, newFakeEngine("decode", fmt.Sprintf("d%d:80", i)))
		cfg.Decode = append(cfg.Decode, w.decode[i].addr)
		w.run(w.decode[i])
	}
	cfg.Log = slog.New(slog.NewTextHandler(w.log, nil))
	r, err := newRouter(cfg, w.net.dial)
	if err != nil {
		t.Fatal(err)
	}
	w.router = r
	w.host("router:80", r.Handler())
	w.client = &http.Client{Transport: &http.Transport{DialContext: w.net.dial}}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
		w.client.CloseIdleConnections()
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("a prompt was logged:\n%s", w.log)
		}
	})
	return w
}

// run starts an engine, or starts it again.
func (w *world) run(f *fakeEngine) { w.host(f.addr, f) }

func (w *world) host(addr string, h http.Handler) {
	host := w.net.listen(addr)
	w.hosts[addr] = host
	srv := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(host)
	}()
	w.t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
}

// kill ends an engine as kill -9 does.
func (w *world) kill(f *fakeEngine) { w.hosts[f.addr].kill() }

// pass lets time pass, and waits for what it brings.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	w.settle()
}

// settle waits until nothing happens any more without time passing.
func (w *world) settle() { synctest.Wait() }

// answerOf is a response read to its end.
type answerOf struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	// err is why the body broke off.
	err error
	// took is from the request to the end of the body, in the bubble's time.
	took time.Duration
}

// errorBody reads the answer's error.
func (a answerOf) errorBody(t *testing.T) (message, param string) {
	t.Helper()
	var b struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &b); err != nil || b.Error.Message == "" || b.Error.Type == "" {
		t.Fatalf("status %d: no error body: %q (%v)", a.status, a.body, err)
	}
	if b.Error.Param != nil {
		param = *b.Error.Param
	}
	return b.Error.Message, param
}

// post sends a completion request.
func (w *world) post(body string) answerOf {
	w.t.Helper()
	return w.do(w.request(w.t.Context(), "POST", "/v1/completions", body))
}

func (w *world) get(path string) answerOf {
	w.t.Helper()
	return w.do(w.request(w.t.Context(), "GET", path, ""))
}

func (w *world) request(ctx context.Context, method, path, body string) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://router:80"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return req
}

func (w *world) do(req *http.Request) answerOf {
	w.t.Helper()
	began := time.Now()
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answerOf{
		status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer, body: string(text), err: err,
		took: time.Since(began),
	}
}

// untouched fails the test if an engine was asked for anything.
func (w *world) untouched(engines ...*fakeEngine) {
	w.t.Helper()
	for _, f := range engines {
		if calls, _ := f.seen(); len(calls) > 0 {
			w.t.Errorf("engine %s was asked %d times", f.addr, len(calls))
		}
	}
}

// asked fails the test unless each engine was asked once, and the request was given up or not.
func (w *world) asked(f *fakeEngine, givenUp bool) {
	w.t.Helper()
	w.settle()
	calls, cancelled := f.seen()
	if len(calls) != 1 || (cancelled == 1) != givenUp {
		w.t.Errorf("engine %s: asked %d times, given up %d times; want once and given up: %v",
			f.addr, len(calls), cancelled, givenUp)
	}
}

// ended fails the test unless one request, or so many, ended so, and none runs.
func (w *world) ended(how outcome, status int, times ...int) {
	w.t.Helper()
	w.settle()
	times = append(times, 1)
	want := fmt.Sprintf("kvferry_router_requests_total{outcome=%q,status=\"%d\"} %d", how, status, times[0])
	if got := w.metrics("kvferry_router_requests_total"); len(got) != 1 || got[0] != want {
		w.t.Errorf("requests counted as %q, want %q", got, want)
	}
	if got := w.metrics("kvferry_router_requests_in_flight"); len(got) != 1 || !strings.HasSuffix(got[0], " 0") {
		w.t.Errorf("in flight: %q", got)
	}
}

// metrics gives the lines of a metric.
func (w *world) metrics(name string) (lines []string) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.router.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// ready says which engines can be chosen, p0, p1, d0 and so on.
func (w *world) ready() string {
	w.settle()
	var names []string
	for _, e := range w.router.engines() {
		if e.Ready {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(e.URL, "http://"), ":80"))
		}
	}
	return strings.Join(names, " ")
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
