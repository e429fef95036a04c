package node_test

import (
	"fmt"
	"testing"

	"kvferry/agent"
	"kvferry/config"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// pulled is a cluster in which decode engines read what prefill engines hold.
func pulled(o e2etest.Options) e2etest.Options {
	on := o.OnRouter
	o.Engine.Pipelined = false
	o.OnRouter = func(cfg *node.RouterConfig) {
		cfg.ScheduleStyle = config.ContextFirst
		if on != nil {
			on(cfg)
		}
	}
	return o
}

// TestPullAnswersAlike: what is read under leases and proved gives the answers of the aggregated
// engine to the last bit, whatever the managers, the ranks and what is remembered, and leaves
// nothing behind.
//
// req: SERVE-02, LEASE-01, LEASE-02, LEASE-11, LEASE-13, LEASE-15
func TestPullAnswersAlike(t *testing.T) {
	model := windowed(t)
	for _, m := range []struct {
		engines       int
		pGrow, dGrow  bool
		reuse         bool
		pTP, dTP, dPP int
		chunk         int
	}{
		{engines: 1, chunk: 48},
		{engines: 2, chunk: 7, pGrow: true},
		{engines: 1, chunk: 256, dGrow: true, reuse: true},
		{engines: 1, chunk: 48, pTP: 2, dTP: 1, reuse: true},
		{engines: 1, chunk: 48, pTP: 1, dTP: 2, dPP: 2, pGrow: true, dGrow: true},
	} {
		name := fmt.Sprintf("%dx%d, chunks of %d, grow %v %v, reuse %v, ranks %d to %dx%d", m.engines, m.engines, m.chunk,
			m.pGrow, m.dGrow, m.reuse, max(1, m.pTP), max(1, m.dTP), max(1, m.dPP))
		t.Run(name, func(t *testing.T) {
			cfg := e2etest.Config()
			cfg.Model, cfg.ChunkTokens, cfg.BlockReuse = model, m.chunk, m.reuse
			c := e2etest.Start(t, pulled(e2etest.Options{
				Prefill: m.engines, Decode: m.engines, Engine: cfg,
				OnPrefill: func(_ int, cfg *node.EngineConfig) {
					cfg.TensorParallel = max(1, m.pTP)
					cfg.KVManager = manager(m.pGrow)
				},
				OnDecode: func(_ int, cfg *node.EngineConfig) {
					cfg.TensorParallel, cfg.PipelineParallel = max(1, m.dTP), max(1, m.dPP)
					cfg.KVManager = manager(m.dGrow)
				},
			}))
			requests := mixed()
			askAll(t, c, cfg, requests)
			if m.reuse {
				askAll(t, c, cfg, requests)
			}
			c.AwaitIdle(t)
		})
	}
}

func manager(grow bool) string {
	if grow {
		return node.GrowManager
	}
	return node.ReserveManager
}

// readOnly is an agent that nobody can write to, nor it to others.
type readOnly struct{ agent.Agent }

func (r readOnly) Capabilities() agent.Capabilities {
	c := r.Agent.Capabilities()
	c.OneSidedWrite = false
	return c
}

func (r readOnly) Write(agent.Transfer) { panic("a write on a transport that has none") }

// TestAnnouncedAnswersAlike: where the transport only reads, decode engines read each chunk while
// the next one is computed, and answer alike.
//
// req: LEASE-25, SERVE-02
func TestAnnouncedAnswersAlike(t *testing.T) {
	for _, grow := range []bool{false, true} {
		t.Run(manager(grow), func(t *testing.T) {
			cfg := e2etest.Config()
			cfg.Model, cfg.Pipelined, cfg.ChunkTokens, cfg.KVManager = windowed(t), true, 48, manager(grow)
			cfg.WrapAgent = func(a agent.Agent) agent.Agent { return readOnly{a} }
			c := e2etest.Start(t, e2etest.Options{Engine: cfg})
			askAll(t, c, cfg, mixed())
			c.AwaitIdle(t)
		})
	}
}
