package main_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kvferry/node"
	"kvferry/node/e2etest"
)

// passes is how many forward passes the prefill engine has run.
func (c *cluster) passes(t *testing.T) int {
	t.Helper()
	s, err := c.state(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.Engines {
		if e.Role != "prefill" {
			continue
		}
		p := e2etest.NewClient(e.URL, c.Model)
		defer p.Close()
		text, err := p.Text(t.Context(), "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var n int
			if _, err := fmt.Sscanf(line, `kvferry_forward_pass_seconds_count{role="prefill"} %d`, &n); err == nil {
				return n
			}
		}
	}
	t.Fatal("no prefill engine tells of its passes")
	return 0
}

// turns waits until the decode engine keeps so many.
func (c *cluster) turns(t *testing.T, n int) {
	t.Helper()
	c.busy(t, "decode", func(s node.State) bool { return s.Turns.Count == n && s.Leases == 0 && s.Sessions.Pull == 0 })
}

const chunk = 16

// talk asks for the next turn of a chat, compares the answer with the aggregated engine's, and
// gives how many prompt tokens the prefill engine computed, by its forward passes of 16 tokens at
// most, and how many the prompt has.
func (c *cluster) talk(t *testing.T, chat []e2etest.Message) (answer *e2etest.Answer, computed int) {
	t.Helper()
	r := e2etest.Request{Messages: chat}.With(greedy).With(map[string]any{"max_tokens": 40})
	want := aggregated.Answer(t, e2etest.Config(), r)
	before := c.passes(t)
	got, err := c.Complete(t.Context(), r)
	if err == nil {
		err = got.Differs(want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got, (c.passes(t) - before) * chunk
}

// TestThreeTurns: of a chat's second and third turn the prefill engine computes what is new, the
// tail that tokenised differently and a part of a block, and no more; the rest it reads from the
// decode engine, though it remembers nothing itself. The tokens are `serve`'s.
//
// req: SERVE-02, LEASE-20, LEASE-23
func TestThreeTurns(t *testing.T) {
	c := up(t, "--schedule-style=context_first", "--chunk-tokens=16", "--enable-block-reuse=false")
	var chat []e2etest.Message
	held := 0
	for i, say := range []string{prose + prose, "And what did she do then?", prose} {
		chat = append(chat, e2etest.Message{Role: "user", Content: say})
		a, computed := c.talk(t, chat)
		fresh := a.Usage.PromptTokens - held
		// A tail of four tokens may tokenise differently, a block may be left in part, and the last
		// pass need not be full.
		if most := fresh + 4 + 15 + chunk; computed > most {
			t.Errorf("turn %d: %d of %d tokens were computed, and %d are new", i+1, computed, a.Usage.PromptTokens, fresh)
		}
		t.Logf("turn %d: prompt %d tokens, new %d, computed at most %d, read %d", i+1, a.Usage.PromptTokens, fresh, computed,
			a.Usage.PromptTokensDetails.CachedTokens)
		held = a.Usage.PromptTokens + a.Usage.CompletionTokens - 1
		chat = append(chat, e2etest.Message{Role: "assistant", Content: a.Text})
		c.turns(t, 1)
	}
}

// TestTurnExpires: a turn that came too late is computed in full, and right.
//
// req: LEASE-20
func TestTurnExpires(t *testing.T) {
	c := up(t, "--schedule-style=context_first", "--chunk-tokens=16", "--enable-block-reuse=false", "--decoder-kv-blocks-ttl=100ms")
	chat := []e2etest.Message{{Role: "user", Content: prose}}
	a, _ := c.talk(t, chat)
	c.awaitIdle(t)
	chat = append(chat, e2etest.Message{Role: "assistant", Content: a.Text}, e2etest.Message{Role: "user", Content: "Why?"})
	a, computed := c.talk(t, chat)
	if computed < a.Usage.PromptTokens || a.Usage.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("%d of %d tokens were computed, and %d read of a turn that is over", computed, a.Usage.PromptTokens,
			a.Usage.PromptTokensDetails.CachedTokens)
	}
	c.awaitIdle(t)
}

// TestSamePromptAgain: what is held for one reader is reused for the next prompt that begins alike;
// of the same prompt at most one block is computed again, on either side.
//
// req: PIPE-09
// case: 14
func TestSamePromptAgain(t *testing.T) {
	c := up(t, "--schedule-style=context_first", "--chunk-tokens=16", "--decoder-kv-blocks-ttl=0s")
	chat := []e2etest.Message{{Role: "user", Content: prose + prose}}
	if _, computed := c.talk(t, chat); computed < 2*chunk {
		t.Errorf("%d tokens were computed of a prompt that nobody knew", computed)
	}
	if a, computed := c.talk(t, chat); computed > chunk {
		t.Errorf("%d tokens of %d were computed again", computed, a.Usage.PromptTokens)
	}
	e2etest.Await(t, waitLong, "nothing is held", func() error {
		for _, s := range c.engines(t, "decode") {
			if s.Turns.Count > 0 {
				return errors.New("a turn is kept")
			}
		}
		return nil
	})
	c.awaitIdle(t)
}
