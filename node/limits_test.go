package node_test

import (
	"errors"
	"net/http"
	"testing"

	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// TestLongestPrompt: a prompt may have all of the context but one token. What it asks for
// beyond that is cut, and one token more is refused on both engines at once.
//
// req: SERVE-02, SERVE-03
func TestLongestPrompt(t *testing.T) {
	const context = 512
	model := windowedOf(t, "short", context)
	for _, pipelined := range []bool{true, false} {
		cfg := mode{1, pipelined, 48, "f16"}.config()
		cfg.Model = model
		c := e2etest.Start(t, e2etest.Options{Engine: cfg})
		longestPrompt(t, c, cfg, context, 1)
		longestPrompt(t, c, cfg, context, 3)
	}
}

// TestLongestPromptEmbedded is the same with the embedded model.
//
// req: SERVE-02, SERVE-03
func TestLongestPromptEmbedded(t *testing.T) {
	if e2etest.Race || testing.Short() {
		t.Skip("8191 tokens are too many here")
	}
	cfg := e2etest.Config()
	cfg.Pipelined = true
	longestPrompt(t, e2etest.Start(t, e2etest.Options{Engine: cfg}), cfg, 8192, 1)
}

// longestPrompt has a prompt served that leaves room for so many tokens of a context.
func longestPrompt(t *testing.T, c *e2etest.Cluster, cfg node.EngineConfig, context, room int) {
	t.Helper()
	r := e2etest.Request{Prompt: tokens(context-room, 1)}.With(greedy).With(map[string]any{
		"max_tokens": 10, "ignore_eos": true, "logprobs": 1,
	})
	got, err := c.Complete(t.Context(), r)
	if err == nil {
		err = got.Differs(aggregated.Answer(t, cfg, r))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got.Usage.CompletionTokens != room || got.Reason != openai.FinishLength {
		t.Errorf("prompt of %d: %d tokens, %s; want %d", context-room, got.Usage.CompletionTokens, got.Reason, room)
	}
	_, err = c.Complete(t.Context(), e2etest.Request{Prompt: tokens(context, 1)})
	tooLong(t, err)
}

func tooLong(t *testing.T, err error) {
	t.Helper()
	fails(t, "too long a prompt", err, http.StatusBadRequest, "the prompt has")
	var e *openai.Error
	if errors.As(err, &e) && (e.Code != openai.CodeContextLength || e.Param != "prompt") {
		t.Errorf("too long a prompt: code %q, param %q", e.Code, e.Param)
	}
}

// TestPrefillLimitBelowDecode: a prompt one token over what the prefill engine can hold, and
// well within what the decode engine can, is the client's error and gets no token, streamed
// or not; the longest that fits is served.
//
// req: SERVE-03
// case: 08
func TestPrefillLimitBelowDecode(t *testing.T) {
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{
		Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { cfg.KVBlocks = 10 },
	})
	for _, stream := range []bool{false, true} {
		r := e2etest.Request{Prompt: tokens(161, 1), Stream: stream}.With(greedy)
		_, err := c.Complete(t.Context(), r)
		tooLong(t, err)
		c.AwaitIdle(t)
	}
	r := e2etest.Request{Prompt: tokens(160, 1)}.With(greedy)
	got, err := c.Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Differs(aggregated.Answer(t, cfg, r)); err != nil {
		t.Error(err)
	}
}
