//go:build linux && amd64 && llamacpp

package node_test

import (
	"strings"
	"testing"

	"kvferry/engine"
	"kvferry/node/e2etest"
)

// TestRealModelChat: a model that was taught roles answers in its own, ends by itself, and each turn
// of a conversation goes on from the KV of the turn before: the template's prompt of a turn begins
// with the tokens of all that was before, the answer and its end among them.
//
// req: SERVE-05, LEASE-20
func TestRealModelChat(t *testing.T) {
	cfg := llamaConfig(t, real(t))
	whole := cfg
	whole.Role = engine.Aggregated
	alone := e2etest.StartEngine(t, whole)
	c := e2etest.Start(t, pulled(e2etest.Options{Engine: cfg, OnRouter: remembering}))
	var messages []e2etest.Message
	held := 0 // tokens whose KV the decode engine has
	for turn, say := range []string{"What is the capital of France? Answer in one short sentence.", "And of Italy?", "What language do they speak there?"} {
		messages = append(messages, e2etest.Message{Role: "user", Content: say})
		r := e2etest.Request{Messages: messages}.With(greedy).With(map[string]any{"max_tokens": 60, "logprobs": true})
		want, err := alone.Complete(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Complete(t.Context(), r)
		if err == nil {
			err = near(got, want)
		}
		if err != nil {
			t.Fatalf("turn %d: %v", turn+1, err)
		}
		cached := got.Usage.PromptTokensDetails.CachedTokens
		t.Logf("turn %d: %d of %d tokens cached, %q, %s", turn+1, cached, got.Usage.PromptTokens, got.Text, got.Reason)
		if turn == 0 && (got.Reason != "stop" || !strings.Contains(got.Text, "Paris")) {
			t.Errorf("answered %q, %s", got.Text, got.Reason)
		}
		// All but the part of a block that is behind the last whole one.
		if least := held / cfg.BlockTokens * cfg.BlockTokens; cached < least {
			t.Errorf("turn %d: %d tokens of %d were read, want at least %d", turn+1, cached, got.Usage.PromptTokens, least)
		}
		held = got.Usage.PromptTokens + got.Usage.CompletionTokens - 1
		messages = append(messages, e2etest.Message{Role: "assistant", Content: got.Text})
	}
	c.AwaitIdle(t)
}
