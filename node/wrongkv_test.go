package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"kvferry/agent"
	"kvferry/engine"
)

// damaging flips a byte of the first block of every write, in the memory that it is taken from.
type damaging struct {
	agent.Agent
	mem []byte
}

func (d *damaging) Register(mem []byte) (agent.Region, error) {
	if d.mem == nil {
		d.mem = mem // the pool; lease slots come after it
	}
	return d.Agent.Register(mem)
}

func (d *damaging) Write(t agent.Transfer) {
	if len(t.LocalIdx) > 0 {
		from := t.Local[t.LocalIdx[0]]
		d.mem[from.Offset+from.Length/2] ^= 1
	}
	d.Agent.Write(t)
}

// TestWrongKV: a byte that arrives wrong is found before it is used: the answer is an error
// that names it, and no token.
//
// case: 09
func TestWrongKV(t *testing.T) {
	cfg := DefaultEngineConfig()
	cfg.TrustNetwork = true
	cfg.Model = "emulated:test"
	start := func(cfg EngineConfig) *Engine {
		e, err := StartEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Stop(t.Context()) })
		return e
	}
	p, d := cfg, cfg
	p.Role, d.Role = engine.Prefill, engine.Decode
	p.WrapAgent = func(a agent.Agent) agent.Agent { return &damaging{Agent: a} }
	r, err := StartRouter(RouterConfig{
		Listen: "127.0.0.1:0", Prefill: []string{start(p).Addr()}, Decode: []string{start(d).Addr()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(t.Context()) })
	if err := AwaitReady(t.Context(), r.Addr()); err != nil {
		t.Fatal(err)
	}
	body := strings.NewReader(`{"model":"emulated:test","prompt":"a prompt of some blocks of tokens","max_tokens":4,"ignore_eos":true}`)
	resp, err := http.Post("http://"+r.Addr()+"/v1/completions", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(text), "wrong KV in block") {
		t.Errorf("status %d: %s", resp.StatusCode, text)
	}
}
