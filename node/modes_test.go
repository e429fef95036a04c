package node_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
	"kvferry/transfer"
)

// mode is a way to serve in which nothing of the answers may change.
type mode struct {
	engines   int // of each role
	pipelined bool
	chunk     int // tokens
	dtype     string
}

func (m mode) String() string {
	return fmt.Sprintf("%dx%d %s, chunks of %d, %s", m.engines, m.engines,
		pick(m.pipelined, "pipelined", "monolithic"), m.chunk, m.dtype)
}

func (m mode) config() node.EngineConfig {
	cfg := e2etest.Config()
	cfg.Pipelined, cfg.ChunkTokens, cfg.KVDType = m.pipelined, m.chunk, m.dtype
	return cfg
}

// modes are all of them: chunks that do not divide blocks of 16 tokens, chunks of whole
// blocks, and chunks that hold most prompts whole.
func modes() []mode {
	var out []mode
	for _, chunk := range []int{7, 48, 256} {
		for _, dtype := range dtypes() {
			for _, engines := range []int{1, 2} {
				out = append(out, mode{engines, true, chunk, dtype}, mode{engines, false, chunk, dtype})
			}
		}
	}
	return out
}

// dtypes are the types of KV. The race detector has no need of both.
func dtypes() []string {
	if e2etest.Race {
		return []string{"f16"}
	}
	return []string{"f16", "f32"}
}

// windowed is a small random model with a window that is no multiple of a block.
func windowed(t testing.TB) string { return windowedOf(t, "windowed", 2048) }

func windowedOf(t testing.TB, name string, context int) string {
	return e2etest.RandomModel(t, name, reftest.ModelOptions{
		Seed: 5, Arch: "gemma3", Layers: 6, Window: 40, Context: context,
	})
}

// TestModesAnswerAlike: whatever the mode, 16 requests at once get the answers of the
// aggregated engine to the last bit of every logprob, and leave nothing behind.
//
// req: SERVE-01, SERVE-02, PIPE-02, PIPE-07, PIPE-08, PIPE-20, PIPE-26
func TestModesAnswerAlike(t *testing.T) {
	model := windowed(t)
	for _, m := range modes() {
		t.Run(m.String(), func(t *testing.T) { m.test(t, model) })
	}
}

// TestEmbeddedModelAnswersAlike is the same with the embedded model, in some of the modes.
//
// req: SERVE-01, SERVE-02
func TestEmbeddedModelAnswersAlike(t *testing.T) {
	if e2etest.Race {
		t.Skip("the race detector has seen every mode with a smaller model")
	}
	for _, m := range []mode{{1, true, 48, "f16"}, {2, false, 256, "f16"}} {
		t.Run(m.String(), func(t *testing.T) { m.test(t, node.EmbeddedModel) })
	}
}

func (m mode) test(t *testing.T, model string) {
	cfg := m.config()
	cfg.Model = model
	var due [2]atomic.Int64 // slices of each prefill engine
	c := e2etest.Start(t, e2etest.Options{
		Prefill: m.engines, Decode: m.engines, Engine: cfg,
		OnPrefill: func(i int, cfg *node.EngineConfig) {
			cfg.Observe = func(r engine.Record) {
				if r.What == transfer.SliceDue {
					due[i].Add(1)
				}
			}
		},
	})
	requests := mixed()
	askAll(t, c, cfg, requests)
	c.AwaitIdle(t)
	slices := int(due[0].Load() + due[1].Load())
	switch {
	case m.pipelined && slices <= len(requests):
		t.Errorf("%d slices left for %d requests: none was cut", slices, len(requests))
	case !m.pipelined && slices != len(requests):
		t.Errorf("%d slices left for %d requests: want one each", slices, len(requests))
	case m.engines == 2 && (due[0].Load() == 0 || due[1].Load() == 0):
		t.Errorf("one prefill engine of two did everything: %d and %d slices", due[0].Load(), due[1].Load())
	}
}

// askAll sends all requests at once and compares the answers.
func askAll(t *testing.T, c *e2etest.Cluster, cfg node.EngineConfig, requests map[string]e2etest.Request) {
	t.Helper()
	var wg sync.WaitGroup
	for name, r := range requests {
		want := aggregated.Answer(t, cfg, r)
		wg.Go(func() {
			got, err := c.Complete(t.Context(), r)
			if err == nil {
				err = got.Differs(want)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
}
