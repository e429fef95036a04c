package node_test

import (
	"strings"
	"testing"

	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// pair is a cluster whose answers are compared.
type pair struct {
	*e2etest.Cluster
	cfg node.EngineConfig
}

// ask has a request answered streamed and not, each time as the aggregated engine does.
func (p pair) ask(t *testing.T, r e2etest.Request) *e2etest.Answer {
	t.Helper()
	want := aggregated.Answer(t, p.cfg, r)
	for _, stream := range []bool{false, true} {
		r.Stream = stream
		got, err := p.Complete(t.Context(), r)
		if err == nil {
			err = got.Differs(want)
		}
		if err != nil {
			t.Fatalf("streamed %t: %v", stream, err)
		}
	}
	return want
}

// TestMaxTokens: an answer of one token ends with the prefill engine's.
//
// req: SERVE-02, PIPE-20
func TestMaxTokens(t *testing.T) {
	cfg := smallConfig(t)
	p := pair{e2etest.Start(t, e2etest.Options{Engine: cfg}), cfg}
	base := e2etest.Request{Prompt: tokens(90, 11)}.With(map[string]any{"logprobs": 0, "ignore_eos": true})
	for _, n := range []int{1, 2, 40} {
		for _, how := range []map[string]any{greedy, seeded} {
			a := p.ask(t, base.With(how).With(map[string]any{"max_tokens": n}))
			if a.Reason != openai.FinishLength || len(a.Tokens) != n {
				t.Errorf("max_tokens %d: %d tokens, %s", n, len(a.Tokens), a.Reason)
			}
		}
	}
}

// TestEndToken: an answer ends at the end token, also when it is the first, which the prefill
// engine draws; with ignore_eos it goes on.
//
// req: SERVE-02, PIPE-20
func TestEndToken(t *testing.T) {
	cfg := smallConfig(t)
	p := pair{e2etest.Start(t, e2etest.Options{Engine: cfg}), cfg}
	const most = 30
	for _, at := range []struct {
		what     string
		from, to int
	}{{"first", 1, 1}, {"later", 2, most}} {
		r := endingRequest(t, cfg, at.from, at.to)
		a := p.ask(t, r)
		if a.Reason != openai.FinishStop {
			t.Errorf("%s: %s", at.what, a.Reason)
		}
		a = p.ask(t, r.With(map[string]any{"ignore_eos": true, "max_tokens": most}))
		if a.Usage.CompletionTokens != most || a.Reason != openai.FinishLength {
			t.Errorf("%s, ignored: %d tokens, %s", at.what, a.Usage.CompletionTokens, a.Reason)
		}
	}
}

// endingRequest looks for a request whose answer ends with the end token, as its token number
// from to number to.
func endingRequest(t *testing.T, cfg node.EngineConfig, from, to int) e2etest.Request {
	t.Helper()
	for seed := range 3000 {
		r := e2etest.Request{Prompt: tokens(20, uint64(seed))}.With(map[string]any{
			"temperature": 2, "seed": seed, "max_tokens": to, "logprobs": 1,
		})
		a := aggregated.Answer(t, cfg, r)
		if a.Reason == openai.FinishStop && a.Usage.CompletionTokens >= from {
			return r
		}
	}
	t.Fatalf("no seed draws the end token as number %d to %d", from, to)
	return e2etest.Request{}
}

// TestStopStrings: text of one token, of several, of the first token, and text that begins
// like a stop string and is none.
//
// req: SERVE-02
func TestStopStrings(t *testing.T) {
	cfg := e2etest.Config()
	cfg.Pipelined, cfg.ChunkTokens = true, 7
	p := pair{e2etest.Start(t, e2etest.Options{Engine: cfg}), cfg}
	base := e2etest.Request{Prompt: prose}.With(greedy).With(map[string]any{"max_tokens": 30, "ignore_eos": true, "logprobs": 0})
	whole := p.ask(t, base)
	if len(whole.Text) < 60 {
		t.Fatalf("the answer is short: %q", whole.Text)
	}
	for _, stop := range []string{whole.Text[40:41], whole.Text[20:33], whole.Text[:3]} {
		a := p.ask(t, base.With(map[string]any{"stop": stop}))
		if before, _, _ := strings.Cut(whole.Text, stop); a.Text != before || a.Reason != openai.FinishStop {
			t.Errorf("stop %q in %q: %q, %s", stop, whole.Text, a.Text, a.Reason)
		}
	}
	none := []string{"no such text", whole.Text[len(whole.Text)-5:] + "x"}
	if a := p.ask(t, base.With(map[string]any{"stop": none})); a.Text != whole.Text || a.Reason != openai.FinishLength {
		t.Errorf("stop strings that never come change %q to %q", whole.Text, a.Text)
	}
}
