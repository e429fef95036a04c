//go:build linux && amd64 && llamacpp

package node_test

import (
	"net/http"
	"testing"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
)

// limited is who answers, up to how many tokens.
type limited struct {
	client *e2etest.Client
	limit  int
	idle   func(testing.TB)
}

// TestLlamaLimits: with llama.cpp, a context of its own length is used to its last token, and one
// token more is refused with its number, before anything is computed; so is what fits one of two
// engines only.
//
// req: SERVE-03, SERVE-05
// case: 08
func TestLlamaLimits(t *testing.T) {
	cfg := llamaConfig(t, e2etest.RandomModel(t, "random", reftest.ModelOptions{Layers: 2, KVHeads: 2, Context: 1024}))
	cfg.Llama.Context = 300
	ask := func(prompt, answer int) e2etest.Request {
		return e2etest.Request{Prompt: tokens(prompt, 1)}.With(greedy).With(map[string]any{"max_tokens": answer, "ignore_eos": true})
	}
	whole := cfg
	whole.Role = engine.Aggregated
	one := e2etest.StartEngine(t, whole)
	two := e2etest.Start(t, e2etest.Options{Engine: cfg})
	unequal := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { cfg.Llama.Context = 200 }})
	for name, c := range map[string]limited{
		"one engine": {one.Client, 300, one.AwaitIdle},
		"a pair":     {two.Client, 300, two.AwaitIdle},
		"unequal":    {unequal.Client, 200, unequal.AwaitIdle},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := c.client.Complete(t.Context(), ask(c.limit-4, 4))
			if err != nil || a.Usage.CompletionTokens != 4 {
				t.Errorf("all of the context: %+v, %v", a, err)
			}
			_, err = c.client.Complete(t.Context(), ask(c.limit+1, 1))
			fails(t, "a token too many", err, http.StatusBadRequest, "tokens")
			c.idle(t)
		})
	}
}
