package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"kvferry/router"
	"kvferry/router/proxy"
)

// RouterConfig is what a router's process is told.
type RouterConfig struct {
	Listen string
	// Prefill and Decode are the engines' HTTP addresses.
	Prefill, Decode []string
	// ScheduleStyle, PrefillFailurePolicy, PrefillTries, LocalCap and Turns are router.Config's.
	ScheduleStyle        string
	PrefillFailurePolicy string
	PrefillTries         int
	LocalCap             int
	Turns                int
	// Token is the deployment's; empty is none.
	Token string
	// DrainTimeout is how long requests may go on after the order to stop.
	DrainTimeout time.Duration
	Log          *slog.Logger
}

// Router is a router's process.
type Router struct {
	cfg      RouterConfig
	proxy    *proxy.Router
	requests inFlight
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	polled   chan struct{}
}

// StartRouter begins to serve and to ask the engines how they are.
func StartRouter(cfg RouterConfig) (*Router, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p, err := proxy.New(proxy.Config{
		Config: router.Config{
			ScheduleStyle: cfg.ScheduleStyle, PrefillFailurePolicy: cfg.PrefillFailurePolicy,
			PrefillTries: cfg.PrefillTries, LocalCap: cfg.LocalCap, Turns: cfg.Turns,
		},
		Prefill: cfg.Prefill, Decode: cfg.Decode, Token: cfg.Token, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Router{cfg: cfg, proxy: p, listener: l, stop: stop, polled: make(chan struct{})}
	r.server = newServer(r.requests.counted(p.Handler()), cfg.Log)
	go func() {
		defer close(r.polled)
		p.Run(ctx)
	}()
	go serveHTTP(r.server, l, cfg.Log)
	return r, nil
}

// Addr is the HTTP address.
func (r *Router) Addr() string { return r.listener.Addr().String() }

// Stop refuses new requests, lets the running ones end for at most the drain time-out or
// until ctx ends, and closes the rest. The listener stays open meanwhile: who comes is told
// why, and that it may come again.
func (r *Router) Stop(ctx context.Context) {
	r.proxy.Drain()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.DrainTimeout)
	defer cancel()
	r.requests.wait(ctx)
	closeServer(ctx, r.server)
	r.stop()
	<-r.polled
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

func serveHTTP(s *http.Server, l net.Listener, log *slog.Logger) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("http server ended", "err", err)
	}
}

// closeServer waits for running requests until ctx ends, then cuts them.
func closeServer(ctx context.Context, s *http.Server) {
	if s.Shutdown(ctx) != nil {
		s.Close()
	}
}
