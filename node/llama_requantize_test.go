//go:build linux && amd64 && llamacpp

package node_test

import (
	"strings"
	"testing"

	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
)

// quantizable is a model whose rows are whole blocks of 32 weights.
func quantizable(t *testing.T) string {
	return e2etest.RandomModel(t, "random", reftest.ModelOptions{Layers: 3, KVHeads: 2, HeadDim: 32, Context: 1024})
}

// TestLlamaRequantized: engines that are asked for other weights make them when they start, answer
// alike in every mode, under the model's own name; and with an engine that has the weights as they
// were they exchange nothing.
//
// req: SERVE-05
// case: 15
func TestLlamaRequantized(t *testing.T) {
	cfg := llamaConfig(t, quantizable(t))
	cfg.Runner, cfg.Requantize = node.AutoRunner, "q4_0"
	one(t, cfg, []e2etest.Request{
		e2etest.Request{Prompt: tokens(150, 1)}.With(greedy).With(map[string]any{"max_tokens": 8, "ignore_eos": true, "logprobs": 2}),
	})
	c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnDecode: func(_ int, cfg *node.EngineConfig) {
		cfg.Requantize, cfg.Runner = node.NoRequantize, node.LlamaRunner
	}})
	_, err := c.Complete(t.Context(), e2etest.Request{Prompt: tokens(40, 1)}.With(greedy))
	if err == nil || !strings.Contains(err.Error(), "model") {
		t.Errorf("answered with %v", err)
	}
}
