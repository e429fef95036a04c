//go:build linux

package shm_test

import (
	"log/slog"
	"sync"
	"testing"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/fault"
	"kvferry/agent/shm"
	"kvferry/wire"
)

// gates are the gates of lives: bytes are copied by who receives them, and pass the gate of whose
// they are.
type gates struct {
	mu     sync.Mutex
	byLife map[wire.Life]*fault.Gate
}

func (g *gates) take(done <-chan struct{}, from wire.Life, n int) (int, error) {
	g.mu.Lock()
	gate := g.byLife[from]
	g.mu.Unlock()
	if gate == nil {
		return n, nil
	}
	return gate.Take(done, n)
}

// gated is an agent whose life has a gate.
type gated struct {
	agent.Agent
	gates *gates
	gate  *fault.Gate
}

func (a gated) Start(h wire.Hello) error {
	a.gates.mu.Lock()
	a.gates.byLife[h.Life] = a.gate
	a.gates.mu.Unlock()
	return a.Agent.Start(h)
}

func newAgent(workers int) agenttest.Make {
	g := &gates{byLife: map[wire.Life]*fault.Gate{}}
	return func(t testing.TB, o agenttest.Options) agent.Agent {
		a, err := shm.New(shm.Options{
			Listen: o.Addr, Log: slog.New(slog.DiscardHandler), RevokeGrace: o.RevokeGrace,
			FrameBytes: o.FrameBytes, Workers: workers, Pace: g.take,
		})
		must(t, err)
		return gated{a, g, o.Gate}
	}
}

func TestConformance(t *testing.T) { agenttest.RunMapped(t, newAgent(1)) }

// Several workers compete for one gate, so who passes it is chance.
func TestConformanceOfManyWorkers(t *testing.T) {
	agenttest.RunMapped(t, newAgent(4), "short write is not held up", "revoke lets a frame finish")
}

func TestConformanceUnderTheDecorator(t *testing.T) {
	inner := newAgent(1)
	agenttest.RunMapped(t, func(t testing.TB, o agenttest.Options) agent.Agent {
		return fault.New(inner(t, o), fault.Options{})
	}, "short write is not held up") // the decorator's link is one for all
}
