//go:build linux && amd64 && llamacpp

package node_test

import (
	"testing"

	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
)

// around are prompts below, at and beyond a window of 40 tokens and chunks of 100.
func around() []e2etest.Request {
	var out []e2etest.Request
	for i, n := range []int{1, 39, 40, 41, 100, 101, 333} {
		r := e2etest.Request{Prompt: tokens(n, 1), Stream: i%2 == 0}
		out = append(out, r.With(map[string]any{"max_tokens": 20, "ignore_eos": true, "logprobs": 2}).With(greedy))
	}
	return out
}

// TestLlamaWindowsAnswerAlike: models with window layers have the answers of one engine in every mode,
// with pools that keep the whole prompt and with such that give up what has left the window.
//
// req: SERVE-05, PIPE-08
func TestLlamaWindowsAnswerAlike(t *testing.T) {
	model := e2etest.RandomModel(t, "windows", reftest.ModelOptions{Arch: "gemma3", Layers: 8, KVHeads: 2, Window: 40, Context: 1024})
	for _, manager := range []string{"reserve", "grow"} {
		t.Run(manager, func(t *testing.T) {
			cfg := llamaConfig(t, model)
			cfg.KVManager = manager
			one(t, cfg, around())
		})
	}
}

// TestLlamaQuantizedKV: KV in q8_0 goes from engine to engine as it is, with a window and without.
//
// req: SERVE-05
func TestLlamaQuantizedKV(t *testing.T) {
	for name, o := range map[string]reftest.ModelOptions{
		"full":   {Layers: 3, KVHeads: 2, HeadDim: 32, Context: 1024},
		"window": {Arch: "gemma3", Layers: 8, KVHeads: 2, HeadDim: 32, Window: 40, Context: 1024},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := llamaConfig(t, e2etest.RandomModel(t, name, o))
			cfg.KVDType = "q8_0"
			one(t, cfg, around())
		})
	}
}
