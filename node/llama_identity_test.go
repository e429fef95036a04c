//go:build linux && amd64 && llamacpp

package node_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvferry/agent"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
	"kvferry/wire"
)

// alias is an agent that says another model's identity than its engine's.
type alias struct {
	agent.Agent
	from, to string
}

func (a *alias) Start(h wire.Hello) error {
	h.Identity.Model = strings.Replace(h.Identity.Model, a.from, a.to, 1)
	return a.Agent.Start(h)
}

// pretending makes an engine's agent an alias, as an engine with another llama.cpp would be.
func pretending(from, to string) func(*node.EngineConfig) {
	return func(cfg *node.EngineConfig) {
		inner := cfg.WrapAgent
		cfg.WrapAgent = func(a agent.Agent) agent.Agent { return &alias{inner(a), from, to} }
	}
}

// with writes a file beside none, of the same name, with a text replaced.
func with(t *testing.T, path, from, to string) string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(file, []byte(from)) {
		t.Fatalf("%s has no %q", path, from)
	}
	other := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(other, bytes.Replace(file, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

// TestLlamaForeignKV: KV of another model, quantization, tokenizer, llama.cpp, stored type or way of
// attention is refused by the name of what differs, pushed and read alike, before a byte is written,
// a range granted or a message sent; both engines then still answer by themselves.
//
// req: SERVE-05
// case: 15
func TestLlamaForeignKV(t *testing.T) {
	path := quantizable(t)
	cfg := llamaConfig(t, path)
	random := reftest.ModelOptions{Layers: 3, KVHeads: 2, HeadDim: 32, Context: 1024, Seed: 7}
	for name, c := range map[string]struct {
		change func(*node.EngineConfig)
		want   string
	}{
		"model":           {func(cfg *node.EngineConfig) { cfg.Model = e2etest.RandomModel(t, "random", random) }, "model's file is "},
		"quantization":    {func(cfg *node.EngineConfig) { cfg.Requantize = "q4_0" }, "model's file is "},
		"tokenizer":       {func(cfg *node.EngineConfig) { cfg.Model = with(t, path, "<pad>", "<pax>") }, "model's file is "},
		"llama.cpp":       {pretending("v0.5.0", "v0.5.1"), "model's llama.cpp is "},
		"keys":            {func(cfg *node.EngineConfig) { cfg.KVDType = "q8_0" }, "model's K is "},
		"values":          {pretending("V f16", "V q8_0"), "model's V is "},
		"flash attention": {pretending("attention on", "attention off"), "model's flash attention is "},
	} {
		for way, mode := range llamaModes {
			t.Run(name+", "+way, func(t *testing.T) {
				var p, d spy
				o := mode(e2etest.Options{Engine: cfg})
				o.OnPrefill = func(_ int, cfg *node.EngineConfig) { p.on(cfg) }
				o.OnDecode = func(_ int, cfg *node.EngineConfig) { d.on(cfg); c.change(cfg) }
				refused(t, e2etest.Start(t, o), c.want, &p, &d)
			})
		}
	}
}

// otherModel is what a reader says that finds in a handle other hashes than its own prompt's, which
// its model's identity is in; it then does not even connect.
const otherModel = "the handle is of another prompt or model"

// refused asks for an answer that the two engines of a cluster must not give together.
func refused(t *testing.T, c *e2etest.Cluster, want string, spies ...*spy) {
	t.Helper()
	r := e2etest.Request{Prompt: tokens(120, 1)}.With(greedy).With(map[string]any{"max_tokens": 4, "ignore_eos": true})
	_, err := c.Complete(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), otherModel) {
		t.Errorf("answered with %v, want %q", err, want)
	}
	for _, s := range spies {
		if writes, sent, grants := s.saw(); len(writes)+len(sent)+len(grants) > 0 {
			t.Errorf("%d writes, %d messages, %d grants", len(writes), len(sent), len(grants))
		}
	}
	c.AwaitIdle(t)
	for _, e := range append(c.P, c.D...) {
		if _, err := e.Complete(t.Context(), r); err != nil {
			t.Errorf("by itself: %v", err)
		}
	}
}
