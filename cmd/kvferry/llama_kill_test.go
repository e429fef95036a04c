//go:build linux && amd64 && llamacpp

package main_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// realPrompt is about 140 tokens, of which SmolLM2's KV is 3 MB, and another one for each number.
func realPrompt(n int) e2etest.Request {
	r := short(n)
	r.Prompt = fmt.Sprint(n, strings.Repeat(" "+prose, 4))
	return r
}

// realCluster is a prefill and a decode engine with llama.cpp behind slow links, and a router.
type realCluster struct {
	p, d   *slowPart
	router *parts
}

// slowRate is what the links carry in bytes a second: a prompt takes two seconds.
const slowRate = 1_500_000

func startReal(t *testing.T, model string, routing []string) *realCluster {
	t.Helper()
	link := slowLink{Model: model, Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Rate: slowRate}
	c := &realCluster{}
	link.Role = engine.Prefill
	c.p = startSlow(t, link)
	link.Role = engine.Decode
	c.d = startSlow(t, link)
	args := append([]string{"router", "--listen=127.0.0.1:0", "--prefill=" + c.p.URL, "--decode=" + c.d.URL}, routing...)
	c.router = &parts{router: startPart(t, args...)}
	c.router.router.Model = modelOf(model)
	c.router.routes(t)
	return c
}

// TestLlamaKilledInTransfer: kill -9 of a prefill or a decode engine that runs a real model, while a
// prompt's KV is on its way, pushed or read under a lease. The client has a clear error soon, the
// other side is at its baseline, and once the process is back the next request has the tokens of the
// aggregated run; and so the second time, though each engine has one of llama.cpp's sequences only.
//
// req: SERVE-04, SERVE-05, PIPE-18, LEASE-17
// case: 05
func TestLlamaKilledInTransfer(t *testing.T) {
	model := needReal(t)
	alone := e2etest.StartEngine(t, slowConfig(model, engine.Aggregated))
	want, err := alone.Complete(t.Context(), realPrompt(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []struct {
		name    string
		routing []string
	}{{"pushed", nil}, {"read", contextFirst}} {
		for _, role := range []string{"prefill", "decode"} {
			t.Run(mode.name+", "+role+" dies", func(t *testing.T) {
				c := startReal(t, model, mode.routing)
				for n := range 2 {
					before := c.p.slicesOut(t)
					ch := c.router.send(t, realPrompt(10+n))
					c.underWay(t, mode.routing != nil, before)
					c.killed(t, role, ch)
					got, err := c.router.router.Complete(t.Context(), realPrompt(1))
					if err == nil {
						err = got.Differs(want)
					}
					if err != nil {
						t.Errorf("the next request: %v", err)
					}
					baseline(t, c.p.part, c.d.part)
				}
			})
		}
	}
}

// underWay waits until a prompt's KV is on its way: it is being read, or a slice more than there
// were has left, and it is not all there.
func (c *realCluster) underWay(t *testing.T, read bool, before int) {
	t.Helper()
	if read {
		c.p.leases(t, 1)
		c.d.holds(t, "decode reads", func(s node.State) bool { return s.Sessions.Pull == 1 })
		return
	}
	e2etest.Await(t, waitLong, "slices have left", func() error {
		if n := c.p.slicesOut(t); n <= before {
			return fmt.Errorf("%d have, as before", n)
		}
		return nil
	})
	c.d.holds(t, "decode receives", func(s node.State) bool { return s.Sessions.Receive == 1 })
}

// slicesLeft finds how many slices left a prefill engine.
var slicesLeft = regexp.MustCompile(`kvferry_transfer_slices_total\{direction="out",role="prefill"\} (\d+)`)

func (p *slowPart) slicesOut(t *testing.T) int {
	t.Helper()
	text, err := p.Text(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if m := slicesLeft.FindSubmatch(text); m != nil {
		n, _ = strconv.Atoi(string(m[1]))
	}
	return n
}

// killed kills an engine, looks at what the client is told and what is left on the other side, and
// starts the engine again.
func (c *realCluster) killed(t *testing.T, role string, ch <-chan stream) {
	t.Helper()
	dead, left := &c.p, c.d
	if role == "decode" {
		dead, left = &c.d, c.p
	}
	var r node.Readiness
	if err := (*dead).Get(t.Context(), "/ready", &r); err != nil {
		t.Fatal(err)
	}
	(*dead).kill(t)
	now := time.Now()
	s := await(t, ch)
	var e *openai.Error
	if !errors.As(s.err, &e) || e.Status != http.StatusBadGateway || e.Code != openai.CodeUpstream || e.Message == "" {
		t.Errorf("the client was told %v", s.err)
	}
	if took := time.Since(now); took > told {
		t.Errorf("the client was told after %s", took)
	}
	t.Logf("the client was told %v", s.err)
	e2etest.Await(t, waitLong, "the other side is at its baseline", func() error { return idle(left.state(t)) })
	*dead = (*dead).again(t, r.Agent)
	c.router.routes(t)
}

// TestLlamaUp: `up` with llama.cpp answers as `serve` does, starts an engine again that was killed
// while it worked, and serves on.
//
// req: SERVE-01, SERVE-04, SERVE-05
func TestLlamaUp(t *testing.T) {
	model := needReal(t)
	program, err := llamaBinary()
	if err != nil {
		t.Fatal(err)
	}
	plain := binary
	binary = program
	t.Cleanup(func() { binary = plain })
	common := []string{"--engine=llamacpp", "--model=" + model, "--context=512", "--chunk-tokens=48", "--enable-block-reuse=false"}
	serve := startPart(t, append([]string{"serve", "--listen=127.0.0.1:0"}, common...)...)
	serve.Model = modelOf(model)
	c := up(t, common...)
	c.Model = modelOf(model)
	same := func(n int) {
		t.Helper()
		want, err := serve.Complete(t.Context(), realPrompt(n))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Complete(t.Context(), realPrompt(n))
		if err == nil {
			err = got.Differs(want)
		}
		if err != nil {
			t.Errorf("request %d: %v", n, err)
		}
	}
	same(1)
	for role, busy := range map[string]func(node.State) bool{
		"prefill": func(s node.State) bool { return s.Sessions.Send == 1 },
		"decode":  func(s node.State) bool { return s.Requests.Running == 1 && s.Sessions.Receive == 0 },
	} {
		victim := c.send(t, realPrompt(2).With(map[string]any{"max_tokens": 300}))
		pid := c.busy(t, role, busy)
		kill(t, pid)
		engineLost(t, role, await(t, victim))
		c.restarted(t, role, pid)
		same(3)
	}
	c.awaitIdle(t)
}
