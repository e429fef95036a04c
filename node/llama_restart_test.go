//go:build linux && amd64 && llamacpp

package node_test

import (
	"context"
	"testing"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
)

// reborn are engines that were started in the place of others. Whoever has them stopped must be told
// before their cluster is started, as what is cleaned up first was begun last.
type reborn []*node.Engine

func (r *reborn) stopped(t *testing.T) {
	t.Cleanup(func() {
		for _, e := range *r {
			e.Stop(now())
		}
	})
}

// anew stops an engine and starts another one at its addresses, which knows nothing of it.
func (r *reborn) anew(t *testing.T, e *e2etest.Engine, role engine.Role, cfg node.EngineConfig) {
	t.Helper()
	cfg.Role, cfg.Listen, cfg.AgentListen = role, e.Addr(), e.AgentAddr()
	cfg.Pipelined = cfg.Pipelined && role == engine.Prefill
	e.AwaitIdle(t)
	e.Stop(now())
	other, err := node.StartEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	*r = append(*r, other)
	e.Engine = other
}

// now is a context that leaves no time.
func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ready waits until the router has found a cluster's engines again.
func ready(t *testing.T, c *e2etest.Cluster) {
	t.Helper()
	e2etest.Await(t, e2etest.Soon, "the router finds the engines", func() error {
		_, err := c.Complete(t.Context(), e2etest.Request{Prompt: []int{7, 8, 9}}.With(map[string]any{"max_tokens": 1}))
		return err
	})
}

// TestLlamaReusesAfterRestart: of a prompt that one engine has, at most one block is computed again,
// by itself or for an engine that was started anew, and the answer is the one that it was: where the
// decode engine was, it gets the prompt's KV out of prefill's memory, pushed or read; where the
// prefill engine was, it reads the conversation so far out of decode's.
//
// req: SERVE-05
// case: 14
func TestLlamaReusesAfterRestart(t *testing.T) {
	cfg := llamaConfig(t, e2etest.RandomModel(t, "random", reftest.ModelOptions{Layers: 3, KVHeads: 2, Context: 1024}))
	cfg.BlockReuse, cfg.ChunkTokens = true, exactChunk
	// 20 blocks and a part of one: a hit ends before the last token, which is always computed.
	prompt := tokens(20*cfg.BlockTokens+5, 1)
	r := e2etest.Request{Prompt: prompt}.With(greedy).With(map[string]any{"max_tokens": 12, "ignore_eos": true, "logprobs": 2})
	whole := cfg
	whole.Role = engine.Aggregated
	alone := e2etest.StartEngine(t, whole)
	want := answered(t, alone.Client, r, 0)
	again := answered(t, alone.Client, r, len(prompt)-cfg.BlockTokens)
	if err := near(again, want); err != nil {
		t.Errorf("one engine, again: %v", err)
	}
	alone.AwaitIdle(t)
	for way, mode := range llamaModes {
		t.Run("decode, "+way, func(t *testing.T) {
			o := mode(e2etest.Options{Engine: cfg})
			var others reborn
			others.stopped(t)
			c := e2etest.Start(t, o)
			if err := near(answered(t, c.Client, r, 0), want); err != nil {
				t.Errorf("at first: %v", err)
			}
			others.anew(t, c.D[0], engine.Decode, o.Engine)
			ready(t, c)
			if err := near(answered(t, c.Client, r, len(prompt)-cfg.BlockTokens), want); err != nil {
				t.Errorf("again: %v", err)
			}
			c.AwaitIdle(t)
		})
	}
	t.Run("prefill", func(t *testing.T) {
		o := pulled(e2etest.Options{Engine: cfg, OnRouter: remembering})
		var others reborn
		others.stopped(t)
		c := e2etest.Start(t, o)
		first := e2etest.Request{Prompt: prose}.With(greedy).With(map[string]any{"max_tokens": 12, "ignore_eos": true, "logprobs": 2})
		a := answered(t, c.Client, first, 0)
		others.anew(t, c.P[0], engine.Prefill, o.Engine)
		ready(t, c)
		second := first
		second.Prompt = prose + a.Text + " And then?"
		held := a.Usage.PromptTokens + a.Usage.CompletionTokens - 1
		got := answered(t, c.Client, second, (held-4)/cfg.BlockTokens*cfg.BlockTokens)
		if err := near(got, answered(t, alone.Client, second, 0)); err != nil {
			t.Errorf("again: %v", err)
		}
		c.AwaitIdle(t)
	})
}

// answered gives an answer of which at least so many of the prompt's tokens were not computed; 0 is
// of a prompt that nobody had.
func answered(t *testing.T, c *e2etest.Client, r e2etest.Request, least int) *e2etest.Answer {
	t.Helper()
	a, err := c.Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	cached := a.Usage.PromptTokensDetails.CachedTokens
	if cached < least {
		t.Errorf("%d of %d tokens were cached, want at least %d", cached, a.Usage.PromptTokens, least)
	}
	return a
}
