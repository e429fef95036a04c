package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// conversation keeps a chat, and what each turn's answer should be.
type conversation struct {
	cfg      node.EngineConfig
	c        *e2etest.Cluster
	messages []e2etest.Message
}

// turn says something and compares the answer with the aggregated engine's.
func (v *conversation) turn(t *testing.T, say string) *e2etest.Answer {
	t.Helper()
	v.messages = append(v.messages, e2etest.Message{Role: "user", Content: say})
	r := e2etest.Request{Messages: v.messages, Stream: len(v.messages)%4 == 1}.With(greedy).
		With(map[string]any{"max_tokens": 40})
	got, err := v.c.Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Differs(aggregated.Answer(t, v.cfg, r)); err != nil {
		t.Fatalf("turn %d: %v", len(v.messages)/2+1, err)
	}
	v.messages = append(v.messages, e2etest.Message{Role: "assistant", Content: got.Text})
	return got
}

func remembering(cfg *node.RouterConfig) { cfg.Turns = 64 }

// TestTurns: in a conversation the prefill engine reads what the decode engine has of the turns
// before, and computes only what is new, what tokenises differently, and a part of a block; the
// answers are those of an engine that computes everything.
//
// req: SERVE-02, LEASE-20, LEASE-23
func TestTurns(t *testing.T) {
	if e2etest.Race {
		t.Skip("the embedded model, whose answers are text, is slow under the race detector")
	}
	for _, grow := range []bool{false, true} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reuse %v", manager(grow), reuse), func(t *testing.T) { threeTurns(t, grow, reuse) })
		}
	}
}

func threeTurns(t *testing.T, grow, reuse bool, on ...func(*node.EngineConfig)) {
	cfg := e2etest.Config()
	for _, f := range on {
		f(&cfg)
	}
	cfg.Model, cfg.ChunkTokens, cfg.KVManager, cfg.BlockReuse = node.EmbeddedModel, 48, manager(grow), reuse
	c := e2etest.Start(t, pulled(e2etest.Options{Engine: cfg, OnRouter: remembering}))
	v := &conversation{cfg: cfg, c: c}
	held := 0 // tokens whose KV the decode engine has
	for i, say := range []string{prose, "And what did she do then? " + prose, "Why?"} {
		a := v.turn(t, say)
		if d, ok := a.Took("transfer_exposed"); !ok || d <= 0 {
			t.Errorf("turn %d: timing %q does not say what the read took", i+1, a.Timing)
		}
		cached := a.Usage.PromptTokensDetails.CachedTokens
		// The tail of a turn may tokenise differently before what follows it.
		if least := (held - 4) / cfg.BlockTokens * cfg.BlockTokens; i > 0 && cached < least {
			t.Errorf("turn %d: %d tokens of %d were read, want at least %d", i+1, cached, a.Usage.PromptTokens, least)
		}
		held = a.Usage.PromptTokens + a.Usage.CompletionTokens - 1
		c.D[0].Holds(t, "the turn is kept, and the one before is not", func(n engine.Counts) bool {
			return n.Turns == 1 && n.Leases == 0 && n.Pull == 0
		})
	}
	metrics, err := c.P[0].Text(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if want := `kvferry_turn_hits_total{outcome="hit",role="prefill"} 2`; !reuse && !strings.Contains(string(metrics), want) {
		t.Errorf("no %s", want)
	}
	c.AwaitIdle(t)
}

// TestTurnOver: a turn whose time to live has passed, or whose blocks another request needed, is
// computed again.
//
// req: LEASE-20
func TestTurnOver(t *testing.T) {
	t.Run("expired", func(t *testing.T) {
		cfg := e2etest.Config()
		cfg.Model, cfg.TurnTTL = windowed(t), 50*time.Millisecond
		c := e2etest.Start(t, pulled(e2etest.Options{Engine: cfg, OnRouter: remembering}))
		v := &conversation{cfg: cfg, c: c}
		v.turn(t, prose)
		c.D[0].Holds(t, "the turn is gone", func(n engine.Counts) bool { return n.Turns == 0 && n.Free == n.Blocks })
		v.turn(t, "And then?")
	})
	t.Run("evicted", func(t *testing.T) {
		cfg := e2etest.Config()
		cfg.Model, cfg.KVBlocks = windowed(t), 32
		c := e2etest.Start(t, pulled(e2etest.Options{Engine: cfg, OnRouter: remembering}))
		v := &conversation{cfg: cfg, c: c}
		v.turn(t, prose)
		c.D[0].Holds(t, "the turn is kept", func(n engine.Counts) bool { return n.Turns == 1 })
		big := e2etest.Request{Prompt: tokens(480, 9)}.With(greedy).With(map[string]any{"max_tokens": 8, "ignore_eos": true})
		got, err := c.Complete(t.Context(), big)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Differs(aggregated.Answer(t, cfg, big)); err != nil {
			t.Fatal(err)
		}
		v.turn(t, "And then?")
	})
}
