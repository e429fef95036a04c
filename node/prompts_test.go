package node_test

import (
	"fmt"
	"math/rand/v2"

	"kvferry/node/e2etest"
)

// The parameters of requests. Seeded draws differ from the likeliest token often enough that
// a wrong seed or position shows.
var (
	greedy = map[string]any{"temperature": 0}
	seeded = map[string]any{"temperature": 0.8, "top_p": 0.9, "top_k": 40, "seed": 20250117}
)

const prose = "It was a fine morning in the early part of October when Mrs. Weston, having " +
	"finished her letter, resolved to walk as far as the village before the rain came on."

// tokens is a prompt of n token IDs: BOS and then random ones, of which a vocabulary of 256
// bytes and three control tokens has all.
func tokens(n int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	out := make([]int32, n)
	for i := 1; i < n; i++ {
		out[i] = 3 + r.Int32N(256)
	}
	return out
}

// longPrompt is the length of a long prompt, in tokens.
func longPrompt() int { return pick(e2etest.Race, 400, 1500) }

// mixed is 16 requests that have nothing in common: one token to many chunks, around a block
// of 16 tokens, greedy and seeded, streamed and not, text, token IDs and chats, with and
// without logprobs, one token of output to many.
func mixed() map[string]e2etest.Request {
	out := map[string]e2etest.Request{}
	for i, n := range []int{1, 15, 16, 17, 32, 48, 100, 127, 144, 300, 301, longPrompt()} {
		r := e2etest.Request{Prompt: tokens(n, 1), Stream: i%2 == 0}
		params := map[string]any{"max_tokens": 1 + 5*(i%4), "ignore_eos": true}
		if i%3 > 0 {
			params["logprobs"] = i % 3
		}
		out[fmt.Sprintf("%d tokens", n)] = r.With(params).With(pick(i%4 < 2, greedy, seeded))
	}
	out["text"] = e2etest.Request{Prompt: prose}.With(seeded).With(map[string]any{"max_tokens": 24, "logprobs": 2})
	out["text streamed"] = e2etest.Request{Prompt: prose + prose, Stream: true}.With(greedy)
	chat := e2etest.Request{Messages: []e2etest.Message{
		{Role: "system", Content: prose}, {Role: "user", Content: "And then?"},
	}}
	out["chat"] = chat.With(greedy).With(map[string]any{"max_tokens": 20})
	out["chat streamed"] = chat.Streamed().With(seeded).With(map[string]any{
		"max_completion_tokens": 17, "logprobs": true, "top_logprobs": 4,
	})
	return out
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
