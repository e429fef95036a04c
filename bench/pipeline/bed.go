package pipeline

import (
	"context"
	"fmt"
	"time"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/engine"
	"kvferry/node"
)

// setting is how a prefill engine is set up.
type setting struct {
	bandwidth int64 // in bytes a second; 0 is as fast as it goes
	mode      string
	chunks    int
}

// The modes: the whole prompt's KV leaves at once, each chunk's does, or layers of a chunk leave
// before it is computed.
const (
	monolithic = "monolithic"
	pipelined  = "pipelined"
	layerwise  = "layer-wise"
)

var modes = []string{monolithic, pipelined, layerwise}

// bed is one decode engine, and prefill engines that send to it.
type bed struct {
	base    node.EngineConfig
	decode  *node.Engine
	prefill map[setting]*node.Engine
}

func newBed(base node.EngineConfig) (*bed, error) {
	base.TrustNetwork = true // both engines and whoever asks them are this process
	b := &bed{base: base, prefill: map[setting]*node.Engine{}}
	cfg := base
	cfg.Role = engine.Decode
	cfg.Pipelined = false
	var err error
	if b.decode, err = node.StartEngine(cfg); err != nil {
		return nil, fmt.Errorf("decode engine: %w", err)
	}
	return b, nil
}

// sender starts the prefill engine of a setting, if it does not run yet.
func (b *bed) sender(s setting, promptTokens int) (*node.Engine, error) {
	if e := b.prefill[s]; e != nil {
		return e, nil
	}
	cfg := b.base
	cfg.Role = engine.Prefill
	cfg.ChunkedPrefill = true
	cfg.ChunkTokens = (promptTokens + s.chunks - 1) / s.chunks
	cfg.Pipelined = s.mode != monolithic
	if s.mode != layerwise {
		cfg.PartBytes = 0
	}
	if s.bandwidth > 0 {
		cfg.WrapAgent = func(a agent.Agent) agent.Agent { return fault.New(a, fault.Options{Rate: s.bandwidth}) }
	}
	e, err := node.StartEngine(cfg)
	if err != nil {
		return nil, fmt.Errorf("prefill engine: %w", err)
	}
	b.prefill[s] = e
	return e, nil
}

// stopTimeout is how long an engine may take to end what still runs.
const stopTimeout = 5 * time.Second

// stopSenders ends the prefill engines.
func (b *bed) stopSenders() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for s, e := range b.prefill {
		e.Stop(ctx)
		delete(b.prefill, s)
	}
}

func (b *bed) stop() {
	b.stopSenders()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	b.decode.Stop(ctx)
}
