package node_test

import (
	"errors"
	"strings"
	"testing"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// slotless is an agent that cannot register lease slots: what comes after the pools.
type slotless struct {
	agent.Agent
	pools, seen int
}

func (s *slotless) Register(mem []byte) (agent.Region, error) {
	if s.seen++; s.seen > s.pools {
		return 0, errors.New("no more memory can be registered")
	}
	return s.Agent.Register(mem)
}

// TestNoSlots: an engine that cannot register its slots does not start, for nobody could verify
// what it holds; without verification it starts, and is read.
//
// req: LEASE-18
func TestNoSlots(t *testing.T) {
	cfg := e2etest.Config()
	cfg.Model = windowed(t)
	cfg.WrapAgent = func(a agent.Agent) agent.Agent { return &slotless{Agent: a, pools: 2} }
	one := cfg
	one.Role = engine.Prefill
	if e, err := node.StartEngine(one); err == nil || !strings.Contains(err.Error(), "kv_lease_verification") {
		if err == nil {
			e.Stop(t.Context())
		}
		t.Errorf("started with %v", err)
	}
	cfg.LeaseVerification = false
	c := e2etest.Start(t, pulled(e2etest.Options{Engine: cfg}))
	askAll(t, c, cfg, map[string]e2etest.Request{"one": e2etest.Request{Prompt: tokens(48, 3)}.With(greedy)})
	c.AwaitIdle(t)
}
