package proxy

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/router"
)

// Router is a router: it serves clients by Handler while Run asks the engines how they are.
type Router struct {
	cfg    Config
	log    *slog.Logger
	began  time.Time
	client *http.Client
	// asker asks how engines are. It keeps no connection, so that an answer is always of the
	// process that can be reached now.
	asker    *http.Client
	metrics  *metrics
	draining atomic.Bool
	running  atomic.Int64
	// poke has a channel an engine; a word in it asks for a poll at once.
	poke []chan struct{}

	// releaseSlots has a place for each engine that is told of a release in the background.
	releaseSlots chan struct{}

	mu     sync.Mutex
	pool   *router.Pool // guarded by mu
	locals int          // guarded by mu; requests that decode engines have to themselves
	// turns is nil if none are remembered; what it has is guarded by mu.
	turns *router.Turns
}

// dialFunc opens a connection to an engine.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// New makes a router. Nothing is asked of an engine before Run.
func New(cfg Config) (*Router, error) {
	dialer := net.Dialer{
		Timeout: dialTimeout,
		// Requests have no time-out, so a host that vanished must be noticed by the connection.
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3,
		},
	}
	return newRouter(cfg, dialer.DialContext)
}

func newRouter(cfg Config, dial dialFunc) (*Router, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	r := &Router{
		cfg:     cfg,
		log:     cfg.Log,
		began:   time.Now(),
		client:  newClient(dial, true),
		asker:   newClient(dial, false),
		metrics: newMetrics(),
		pool:    router.NewPool(cfg.Prefill, cfg.Decode),

		releaseSlots: make(chan struct{}, maxReleases),
	}
	if cfg.ScheduleStyle == router.ContextFirst && cfg.Turns > 0 {
		r.turns = router.NewTurns(cfg.Turns)
	}
	for _, e := range r.pool.Engines() {
		r.metrics.engine(e)
		r.poke = append(r.poke, make(chan struct{}, 1))
	}
	return r, nil
}

// newClient makes the client for engines. They are spoken to directly, whatever proxy the
// environment names, and their answers are passed on as they are.
func newClient(dial dialFunc, keep bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         dial,
			DisableCompression:  true,
			DisableKeepAlives:   !keep,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			// A trailer is read only if it fits.
			ReadBufferSize:      httpapi.MaxTurn + 16<<10,
			TLSHandshakeTimeout: dialTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Drain makes the router refuse new requests, and say that it is not ready. Requests that run
// are finished. // case: 16
func (r *Router) Drain() {
	if !r.draining.Swap(true) {
		r.log.Info("router drains", "running", r.running.Load())
	}
}

func (r *Router) engines() []router.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pool.Engines()
}

// pick chooses a request's pair, and gives the handle of the conversation's last turn if its
// holder may still have it.
func (r *Router) pick(model string, talk router.Conversation) (router.Pair, json.RawMessage, *openai.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := router.Choice{Model: model, Near: -1, Alone: r.cfg.PrefillFailurePolicy == router.PolicyLocal}
	var handle json.RawMessage
	if r.turns != nil {
		if turn, ok := r.turns.Take(talk); ok && r.pool.Lives(turn.Decode, turn.Life) {
			c.Near, handle = turn.Decode, turn.Handle
		}
	}
	pair, err := r.pool.Pick(c)
	return pair, handle, err
}

// remember keeps the handle of a turn that ended. What is no object, or is not given, is none.
func (r *Router) remember(talk router.Conversation, e router.Engine, handle json.RawMessage) {
	if r.turns == nil || len(handle) == 0 || len(handle) > httpapi.MaxTurn || handle[0] != '{' || !json.Valid(handle) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns.Put(talk, router.Turn{Decode: e.Index, Life: e.Report.Life, Handle: handle})
}

func (r *Router) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pool.Ready() && !r.draining.Load()
}

func (r *Router) models() []router.Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pool.Models()
}
