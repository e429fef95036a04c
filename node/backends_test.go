package node_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"kvferry/agent/nixl"
	"kvferry/config"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// book is what engines log, at every level.
type book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.b.String(), s)
}

// TestBackendsAnswerAlike: whatever carries the KV, pushed in chunks, whole, read, and in a
// conversation's later turns, the answers are the aggregated engine's to the last bit, and nothing
// is left behind; engines of different backends use what both have.
//
// req: SERVE-02, PIPE-23
func TestBackendsAnswerAlike(t *testing.T) {
	const tcp, shm, nixl = config.TCPBackend, config.SHMBackend, config.NIXLBackend
	for _, c := range []struct{ prefill, decode, by string }{
		{tcp, tcp, tcp}, {shm, shm, shm}, {nixl, nixl, nixl}, {shm, tcp, tcp}, {tcp, shm, tcp}, {nixl, shm, tcp},
	} {
		t.Run(c.prefill+" and "+c.decode, func(t *testing.T) {
			for name, mode := range map[string]func(e2etest.Options) e2etest.Options{
				"pipelined":  func(o e2etest.Options) e2etest.Options { return o },
				"monolithic": func(o e2etest.Options) e2etest.Options { o.Engine.Pipelined = false; return o },
				"read":       pulled,
			} {
				t.Run(name, func(t *testing.T) { carriedBy(t, mode, c.prefill, c.decode, c.by) })
			}
		})
	}
}

func carriedBy(t *testing.T, mode func(e2etest.Options) e2etest.Options, prefill, decode, by string) {
	if (prefill == config.NIXLBackend || decode == config.NIXLBackend) && (!nixl.Built || os.Getenv(nixl.Variable) == "") {
		t.Skip("NIXL is not built in, or " + nixl.Variable + " is not set")
	}
	cfg := e2etest.Config()
	cfg.Model, cfg.ChunkTokens = windowed(t), 48
	said := &book{}
	with := func(backend string) func(int, *node.EngineConfig) {
		return func(_ int, cfg *node.EngineConfig) {
			cfg.Agent.Backend = backend
			cfg.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelInfo}))
		}
	}
	c := e2etest.Start(t, mode(e2etest.Options{
		Engine: cfg, OnPrefill: with(prefill), OnDecode: with(decode),
	}))
	askAll(t, c, cfg, mixed())
	c.AwaitIdle(t)
	if !said.has(`msg="a peer is up"`) || !said.has("agent="+by) {
		t.Errorf("no peer is reached by %s", by)
	}
	for _, other := range []string{config.TCPBackend, config.SHMBackend, config.NIXLBackend} {
		if other != by && said.has("agent="+other) {
			t.Errorf("a peer is reached by %s", other)
		}
	}
}

// TestTurnsByEachBackend: three turns, of which each reads the one before from the decode engine.
//
// req: LEASE-20
func TestTurnsByEachBackend(t *testing.T) {
	if e2etest.Race {
		t.Skip("the embedded model, whose answers are text, is slow under the race detector")
	}
	for _, backend := range []string{config.TCPBackend, config.SHMBackend, config.NIXLBackend} {
		t.Run(backend, func(t *testing.T) {
			if backend == config.NIXLBackend && (!nixl.Built || os.Getenv(nixl.Variable) == "") {
				t.Skip("NIXL is not built in, or " + nixl.Variable + " is not set")
			}
			threeTurns(t, false, true, func(cfg *node.EngineConfig) { cfg.Agent.Backend = backend })
		})
	}
}

// TestNoNIXL: NIXL that was asked for and is not there is an error that says what to install.
func TestNoNIXL(t *testing.T) {
	cfg := e2etest.Config()
	cfg.Role, cfg.Agent.Backend, cfg.Agent.NIXL.Library = engine.Prefill, config.NIXLBackend, "/nowhere/libnixl_capi.so"
	e, err := node.StartEngine(cfg)
	if err == nil {
		e.Stop(t.Context())
		t.Fatal("it starts")
	}
	want := "not built in"
	if nixl.Built {
		want = "install nixl-cu12"
	}
	if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "backend NIXL") {
		t.Errorf("%v", err)
	}
}
