//go:build linux && amd64 && llamacpp

package node_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

var (
	llamaPrompts = flag.Int("llama.prompts", 8, "prompts of the tests that ask a real model in every mode; 40 are the whole of them, of 10 to 1,500 tokens, and fewer end at 300")
	llamaChunk   = flag.Int("llama.chunk", 60, "tokens of a chunk in those tests")
)

// exactChunk is the most tokens of a pass for which llama.cpp's attention takes one and the same
// path. From 64 on it takes another one for prompts, which adds in another order (and not in half
// precision), so that a prompt's last token alone, as a decode engine computes it again behind KV
// that it read, has other logits than as the last of its prompt. Below, it has the same ones.
const exactChunk = 63

// roundingOver is rounding where chunks are longer: 0.36 was measured.
const roundingOver = 0.75

// matrix is what a real model is asked, and what it answers where one engine does all of it: of
// each prompt the first turn, and a second one that goes on behind the answer.
type matrix struct {
	cfg     node.EngineConfig
	prompts []string
	// cut says that llama.cpp computes a token of this model alike wherever its prompt is cut, if that
	// is into chunks of at most exactChunk.
	cut           bool
	first, second []*e2etest.Answer
}

func (m *matrix) ask(prompt string) e2etest.Request {
	return e2etest.Request{Prompt: prompt, Stream: len(prompt)%2 == 1}.With(greedy).
		With(map[string]any{"max_tokens": 16, "ignore_eos": true, "logprobs": 2})
}

// again is a prompt's second turn.
func (m *matrix) again(i int) string {
	return m.prompts[i] + m.first[i].Text + "\nThe next morning, when the ferry came back,"
}

// alone has every turn answered by the aggregated engine, which keeps what it computed in the first
// turn for the second, and looks at how long the prompts are. What it has of another prompt that
// begins alike moves the cuts: where they matter, first turns are those of an engine that keeps nothing.
func (m *matrix) alone(t *testing.T, most int) {
	t.Helper()
	whole := m.cfg
	whole.Role = engine.Aggregated
	first := e2etest.StartEngine(t, whole)
	whole.BlockReuse = true
	e := e2etest.StartEngine(t, whole)
	if m.cut {
		first = e
	}
	complete := func(e *e2etest.Engine, prompt string) *e2etest.Answer {
		a, err := e.Complete(t.Context(), m.ask(prompt))
		if err != nil {
			t.Fatalf("the aggregated engine: %v", err)
		}
		return a
	}
	shortest, longest := most, 0
	for i, p := range m.prompts {
		m.first = append(m.first, complete(first, p))
		if !m.cut {
			complete(e, p)
		}
		m.second = append(m.second, complete(e, m.again(i)))
		n := m.first[i].Usage.PromptTokens
		shortest, longest = min(shortest, n), max(longest, n)
	}
	e.AwaitIdle(t)
	t.Logf("%d prompts of %d to %d tokens", len(m.prompts), shortest, longest)
	if shortest < 10 || shortest > 15 || longest > most*11/10 || longest < most*9/10 {
		t.Errorf("wanted prompts of 10 to about %d tokens", most)
	}
}

// pushed asks every first turn of a cluster that pushes: the answers are equal to the last bit of
// every logprob, whatever the chunks are.
func (m *matrix) pushed(t *testing.T, pipelined bool) {
	cfg := m.cfg
	cfg.Pipelined = pipelined
	c := e2etest.Start(t, e2etest.Options{Engine: cfg})
	for i, p := range m.prompts {
		got, err := c.Complete(t.Context(), m.ask(p))
		if err == nil {
			err = got.Differs(m.first[i])
		}
		if err != nil {
			t.Errorf("prompt %d of %d tokens: %v", i, m.first[i].Usage.PromptTokens, err)
		}
	}
	c.AwaitIdle(t)
}

// pulled asks both turns of a cluster in which decode reads under leases and proves what it read,
// and prefill reads the turn before from decode. Decode computes a prompt's last token again.
func (m *matrix) pulled(t *testing.T) {
	c := e2etest.Start(t, pulled(e2etest.Options{Engine: m.cfg, OnRouter: remembering}))
	ties, reused, by := 0, 0, rounding
	if m.cfg.ChunkTokens > exactChunk {
		by = roundingOver
	}
	complete := func(i, turn int, prompt string, want *e2etest.Answer) (same bool, got *e2etest.Answer) {
		got, err := c.Complete(t.Context(), m.ask(prompt))
		switch {
		case err != nil:
		case m.cut:
			err = got.Differs(want)
		case tied(by, got, want):
			ties++
			return false, got
		default:
			err = within(by, got, want)
		}
		if err != nil {
			t.Fatalf("prompt %d of %d tokens, turn %d: %v", i, want.Usage.PromptTokens, turn, err)
		}
		return true, got
	}
	for i, p := range m.prompts {
		if same, _ := complete(i, 1, p, m.first[i]); !same {
			continue // there is no such second turn
		}
		_, a := complete(i, 2, m.again(i), m.second[i])
		// What decode has is all but the last token, of which a tail may tokenise differently and a
		// part of a block is left.
		held := m.first[i].Usage.PromptTokens + m.first[i].Usage.CompletionTokens - 1
		least := (held - 4) / m.cfg.BlockTokens * m.cfg.BlockTokens
		cached := a.Usage.PromptTokensDetails.CachedTokens
		if least >= m.cfg.RecomputeThreshold && cached < least {
			t.Errorf("prompt %d, turn 2: %d tokens of %d were read, want at least %d", i, cached, a.Usage.PromptTokens, least)
		}
		reused += cached
	}
	if reused == 0 {
		t.Error("no second turn reused anything of its first")
	}
	t.Logf("%d tokens of second turns were read; %d answers part from the aggregated engine's at a tie", reused, ties)
	c.AwaitIdle(t)
}

// tied says that two answers part at a token which both find as likely, but for so much, as the
// other's.
func tied(by float64, a, b *e2etest.Answer) bool {
	for i := range min(len(a.Tokens), len(b.Tokens)) {
		x, y := a.Tokens[i], b.Tokens[i]
		if x.Name == y.Name {
			if math.Abs(x.Logprob-y.Logprob) > by {
				return false
			}
			continue
		}
		other, ok := x.Top[y.Name]
		return ok && math.Abs(x.Logprob-other) <= by && math.Abs(y.Logprob-other) <= by
	}
	return false
}

// test asks in all modes, one request at a time, as llama.cpp's sums depend on what shares a batch.
// The engines have two of llama.cpp's sequences, so that one that is left behind ends the test.
func (m *matrix) test(t *testing.T, most int) {
	m.cfg.MaxSeqs, m.cfg.ChunkTokens = 2, *llamaChunk
	m.cut = m.cut && *llamaChunk <= exactChunk
	m.alone(t, most)
	t.Run("pipelined", func(t *testing.T) { m.pushed(t, true) })
	t.Run("monolithic", func(t *testing.T) { m.pushed(t, false) })
	t.Run("pull and turn 2", m.pulled)
}

// TestRealModelMatrix: a real model's greedy tokens, and all of their logprobs, are those of the
// aggregated run for prompts of 10 to 1,500 tokens: pushed as they are computed, pushed whole, read
// under leases, and in a second turn. Afterwards nobody holds anything.
//
// req: SERVE-02, SERVE-05
func TestRealModelMatrix(t *testing.T) {
	cfg := llamaConfig(t, real(t))
	cfg.Llama.Context = 2048
	most := pick(*llamaPrompts >= 40, 1500, 300)
	m := matrix{cfg: cfg, cut: true, prompts: stories(*llamaPrompts, most)}
	m.test(t, most)
}

// TestWindowModelMatrix is the same with a model that has sliding windows, of which nothing is said
// unless it is there: gemma-3-270m has a window of 512 tokens, over which the longest prompts go. Its
// weights are of types for which llama.cpp multiplies several tokens at once in another order than
// one alone, so that what is read is like the aggregated run's but for rounding.
//
// req: SERVE-05
func TestWindowModelMatrix(t *testing.T) {
	const variable = "KVFERRY_LLAMA_WINDOW_MODEL"
	model := os.Getenv(variable)
	if model == "" || testing.Short() {
		t.Skip(fmt.Sprint(variable, " does not name a model with sliding windows"))
	}
	cfg := llamaConfig(t, model)
	cfg.Llama.Context = 2048
	m := matrix{cfg: cfg, prompts: stories(5, 800)}
	m.test(t, 800)
}
