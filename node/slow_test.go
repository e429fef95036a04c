package node_test

import (
	"testing"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// slow is an agent whose link has faults.
type slow struct {
	fault.Options
	*fault.Agent
}

// on puts the faults around an engine's agent.
func (s *slow) on(cfg *node.EngineConfig) {
	cfg.WrapAgent = func(inner agent.Agent) agent.Agent {
		s.Agent = fault.New(inner, s.Options)
		return s.Agent
	}
}

// connect has a request served, so that a stall after it finds the engines connected.
func (s *slow) connect(t *testing.T, c *e2etest.Cluster) {
	t.Helper()
	if _, err := c.Complete(t.Context(), e2etest.Request{Prompt: tokens(5, 1)}.With(greedy)); err != nil {
		t.Fatal(err)
	}
	c.AwaitIdle(t)
}
