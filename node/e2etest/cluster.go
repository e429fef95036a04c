package e2etest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/models"
	"kvferry/node"
	"kvferry/runner/reference/reftest"
)

// Options of a cluster.
type Options struct {
	// Prefill and Decode are the numbers of engines, 1 if zero.
	Prefill, Decode int
	// Engine is the configuration of all engines; roles and addresses are filled in.
	Engine node.EngineConfig
	// OnPrefill and OnDecode, if set, change the configuration of one engine.
	OnPrefill, OnDecode func(i int, cfg *node.EngineConfig)
	// OnRouter, if set, changes the router's.
	OnRouter func(cfg *node.RouterConfig)
}

// Config is the default configuration, but what is remembered of earlier prompts is left out,
// so that each request does all of its work; and what nobody may read is overwritten.
func Config() node.EngineConfig {
	cfg := node.DefaultEngineConfig()
	cfg.BlockReuse, cfg.PoisonFreed, cfg.TrustNetwork = false, true, true
	return cfg
}

// Cluster is engines and a router in this process, over real sockets.
type Cluster struct {
	// Client speaks to the router.
	*Client
	P, D   []*Engine
	Router *node.Router
}

// Engine is one engine with a client of its own.
type Engine struct {
	*node.Engine
	*Client
}

// start is how long a router may take to find its engines.
const start = 20 * time.Second

// Start starts a cluster and waits until it can serve. When the test ends, every engine must
// be idle again by itself.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{
		P: startAll(t, max(1, o.Prefill), engine.Prefill, o.Engine, o.OnPrefill),
		D: startAll(t, max(1, o.Decode), engine.Decode, o.Engine, o.OnDecode),
	}
	cfg := node.RouterConfig{
		Listen: "127.0.0.1:0", Prefill: urls(c.P), Decode: urls(c.D), DrainTimeout: time.Second, Log: o.Engine.Log,
	}
	if o.OnRouter != nil {
		o.OnRouter(&cfg)
	}
	r, err := node.StartRouter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(ended()) })
	c.Router = r
	c.Client = NewClient(r.Addr(), c.P[0].Model)
	t.Cleanup(c.Client.Close)
	ctx, cancel := context.WithTimeout(context.Background(), start)
	defer cancel()
	if err := node.AwaitReady(ctx, r.Addr()); err != nil {
		t.Fatal(err)
	}
	Await(t, start, "every engine is ready", func() error { return c.allReady(ctx) })
	// Cleanups run last to first: this one before the engines are stopped.
	t.Cleanup(func() { c.AwaitIdle(t) })
	return c
}

func startAll(t testing.TB, n int, role engine.Role, cfg node.EngineConfig, on func(int, *node.EngineConfig)) []*Engine {
	t.Helper()
	var out []*Engine
	for i := range n {
		one := cfg
		one.Role = role
		one.Pipelined = cfg.Pipelined && role == engine.Prefill
		if on != nil {
			on(i, &one)
		}
		out = append(out, StartEngine(t, one))
	}
	return out
}

// StartEngine starts one engine, which is stopped when the test ends.
func StartEngine(t testing.TB, cfg node.EngineConfig) *Engine {
	t.Helper()
	e, err := node.StartEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(e.Addr(), modelName(cfg.Model))
	t.Cleanup(func() {
		c.Close()
		e.Stop(ended())
	})
	return &Engine{Engine: e, Client: c}
}

func modelName(model string) string {
	if model == node.EmbeddedModel {
		return models.TinyName
	}
	base := filepath.Base(model)
	return base[:len(base)-len(filepath.Ext(base))]
}

// ended is a context that leaves nothing time to drain: the tests wait for what they want.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func urls(engines []*Engine) []string {
	var out []string
	for _, e := range engines {
		out = append(out, e.URL)
	}
	return out
}

func (c *Cluster) allReady(ctx context.Context) error {
	var s RouterState
	if err := c.Get(ctx, "/debug/state", &s); err != nil {
		return err
	}
	for _, e := range s.Engines {
		if !e.Ready {
			return fmt.Errorf("%s is not ready", e.URL)
		}
	}
	return nil
}

// AwaitIdle waits until every engine holds nothing, as before its first request, and the
// router runs no request.
func (c *Cluster) AwaitIdle(t testing.TB) {
	t.Helper()
	for _, e := range append(append([]*Engine{}, c.P...), c.D...) {
		e.AwaitIdle(t)
	}
	Await(t, Soon, "the router is idle", func() error {
		var s RouterState
		if err := c.Get(context.Background(), "/debug/state", &s); err != nil {
			return err
		}
		if s.Requests.Running > 0 {
			return fmt.Errorf("%d requests run", s.Requests.Running)
		}
		return nil
	})
}

// AwaitIdle waits until the engine holds nothing.
func (e *Engine) AwaitIdle(t testing.TB) {
	t.Helper()
	Await(t, Soon, "engine "+e.URL+" is idle", e.Idle)
}

// Idle says what the engine still holds.
func (e *Engine) Idle() error {
	n, err := e.Counts()
	if err != nil {
		return err
	}
	// Turns that are kept hold blocks that nobody needs, some of them together.
	if n.Free+n.TurnBlocks < n.Blocks || n != (engine.Counts{Blocks: n.Blocks, Free: n.Free, Turns: n.Turns, TurnBlocks: n.TurnBlocks}) {
		return fmt.Errorf("it holds %+v", n)
	}
	return nil
}

// Holds waits until the engine's counts are as a test wants them.
func (e *Engine) Holds(t testing.TB, what string, want func(engine.Counts) bool) {
	t.Helper()
	Await(t, 20*time.Second, what, func() error {
		n, err := e.Counts()
		if err == nil && !want(n) {
			err = fmt.Errorf("it holds %+v", n)
		}
		return err
	})
}

// RandomModel writes a random model's file.
func RandomModel(t testing.TB, name string, o reftest.ModelOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(path, reftest.Model(o), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
