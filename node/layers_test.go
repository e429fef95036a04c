package node_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/kvcache"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// layerwise is a pair whose prefill engine sends each layer when it is written.
func layerwise(t *testing.T, p, d kvcache.Parallel, change func(*node.EngineConfig)) (*spied, node.EngineConfig) {
	t.Helper()
	cfg := smallConfig(t)
	if change != nil {
		change(&cfg)
	}
	s := &spied{}
	s.Cluster = e2etest.Start(t, e2etest.Options{
		Engine: cfg,
		OnPrefill: func(_ int, cfg *node.EngineConfig) {
			cfg.TensorParallel, cfg.PipelineParallel = p.Tensor, p.Pipeline
			s.p.on(cfg)
		},
		OnDecode: func(_ int, cfg *node.EngineConfig) { cfg.TensorParallel, cfg.PipelineParallel = d.Tensor, d.Pipeline },
	})
	return s, cfg
}

// TestLayersAnswerAlike: layers leave ahead of their chunks, of requests at once, between engines
// that are cut alike or not, with checksums over the whole of a slice. The answers are the
// aggregated engine's, and nothing stays behind.
//
// req: SERVE-02, PIPE-01, PIPE-13, PIPE-30, PIPE-33
func TestLayersAnswerAlike(t *testing.T) {
	for _, c := range []struct{ p, d kvcache.Parallel }{
		{kvcache.Parallel{Tensor: 1, Pipeline: 1}, kvcache.Parallel{Tensor: 1, Pipeline: 1}},
		{kvcache.Parallel{Tensor: 2, Pipeline: 2}, kvcache.Parallel{Tensor: 1, Pipeline: 1}},
		{kvcache.Parallel{Tensor: 1, Pipeline: 2}, kvcache.Parallel{Tensor: 4, Pipeline: 1}},
	} {
		t.Run(fmt.Sprintf("%+v to %+v", c.p, c.d), func(t *testing.T) {
			s, cfg := layerwise(t, c.p, c.d, func(cfg *node.EngineConfig) { cfg.Checksum = true })
			askAll(t, s.Cluster, cfg, mixed())
			s.AwaitIdle(t)
			writes, _, _ := s.p.saw()
			ahead := 0
			for _, w := range writes {
				if w.Notice == nil {
					ahead++
				}
			}
			if ahead == 0 {
				t.Errorf("of %d writes none went ahead of its chunk", len(writes))
			}
		})
	}
}

// at is where bytes are.
type at struct {
	region agent.Region
	offset uint64
}

// bytesOf is from where to where the writes bring each run of step bytes; no place is written twice.
func bytesOf(t *testing.T, writes []agent.Transfer, step uint64) map[at]at {
	t.Helper()
	out := map[at]at{}
	for _, w := range writes {
		for i, l := range w.LocalIdx {
			from, to := w.Local[l], w.Remote[w.RemoteIdx[i]]
			for n := uint64(0); n < from.Length; n += step {
				place := at{to.Region, to.Offset + n}
				if _, twice := out[place]; twice {
					t.Fatalf("%+v is written twice", place)
				}
				out[place] = at{from.Region, from.Offset + n}
			}
		}
	}
	return out
}

// TestLayersAreTheSameBytes: a prompt that fits one chunk is addressed byte for byte like a
// monolithic transfer, whether its layers leave together or not.
//
// req: PIPE-11
func TestLayersAreTheSameBytes(t *testing.T) {
	one := kvcache.Parallel{Tensor: 1, Pipeline: 1}
	writes := func(pipelined bool) []agent.Transfer {
		s, _ := layerwise(t, one, one, func(cfg *node.EngineConfig) { cfg.Pipelined, cfg.ChunkTokens = pipelined, 256 })
		s.ask(t, e2etest.Request{Prompt: tokens(250, 3)}.With(greedy))
		w, _, _ := s.p.saw()
		return w
	}
	whole, parts := writes(false), writes(true)
	for n := 0; n < 10 && len(parts) < 2; n++ { // a busy machine may compute it all before the loop hears of a layer
		parts = writes(true)
	}
	if len(whole) != 1 || len(parts) < 2 {
		t.Fatalf("%d writes as a whole, %d in parts", len(whole), len(parts))
	}
	const step = 32 // no layer of a block is shorter
	want, got := bytesOf(t, whole, step), bytesOf(t, parts, step)
	for to, from := range want {
		if got[to] != from {
			t.Errorf("%+v comes from %+v as a whole, and from %+v in parts", to, from, got[to])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d places are written as a whole, and %d in parts", len(want), len(got))
	}
	if x, y := result(t, whole[0]), result(t, parts[len(parts)-1]); x.Bytes != y.Bytes || x.Start != y.Start || x.End != y.End {
		t.Errorf("the results are %+v and %+v", x, y)
	}
}

// TestLayerFails: a write that fails when only some layers of its chunk have left is the client's
// error at once, and the next request is served.
//
// req: PIPE-18
// case: 11
func TestLayerFails(t *testing.T) {
	cfg := smallConfig(t)
	var link slow
	link.Script = fault.Nth(fault.Write, 2, fault.Action{Fail: errors.New("the wire is cut")})
	c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { link.on(cfg) }})
	_, err := c.Complete(t.Context(), e2etest.Request{Prompt: tokens(300, 18)}.With(greedy))
	says(t, err, http.StatusBadGateway, []string{"the wire is cut"})
	c.AwaitIdle(t)
	if err := same(t, c, cfg, e2etest.Request{Prompt: tokens(300, 18)}.With(seeded)); err != nil {
		t.Errorf("the next request: %v", err)
	}
}
