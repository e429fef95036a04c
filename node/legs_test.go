package node_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// leg is the part of a request that one engine is asked for, as a router would.
func leg(r e2etest.Request, d openai.Disagg) e2etest.Request {
	d.ScheduleStyle = openai.GenerationFirst
	return r.With(map[string]any{"disaggregated_params": d})
}

func prefillLeg(r e2etest.Request, id string) e2etest.Request {
	return leg(r, openai.Disagg{RequestType: openai.ContextOnly, RequestID: id})
}

func decodeLeg(r e2etest.Request, id string, p *e2etest.Engine) e2etest.Request {
	return leg(r, openai.Disagg{RequestType: openai.GenerationOnly, RequestID: id, CtxInfoEndpoint: p.AgentAddr()})
}

// later is an answer that is still to come, of a prefill leg the reply.
type later struct {
	answer *e2etest.Answer
	reply  *node.PrefillReply
	err    error
}

// ask sends a request and gives its answer when it comes.
func ask(c *e2etest.Client, r e2etest.Request) <-chan later {
	ch := make(chan later, 1)
	go func() {
		a, err := c.Complete(context.Background(), r)
		ch <- later{answer: a, err: err}
	}()
	return ch
}

// askPrefill sends a prefill leg likewise.
func askPrefill(p *e2etest.Engine, r e2etest.Request, id string) <-chan later {
	ch := make(chan later, 1)
	go func() {
		reply, err := p.Prefill(context.Background(), prefillLeg(r, id))
		ch <- later{reply: reply, err: err}
	}()
	return ch
}

// come waits for an answer.
func come(t *testing.T, what string, ch <-chan later) later {
	t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	select {
	case l := <-ch:
		return l
	case <-late.C:
		t.Fatalf("no answer of the %s", what)
		return later{}
	}
}

// fails checks that an answer is an error of that status which says why.
func fails(t *testing.T, what string, err error, status int, why string) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.Status != status || !strings.Contains(e.Message, why) {
		t.Errorf("%s: %v, want status %d because %q", what, err, status, why)
	}
}

func smallConfig(t *testing.T) node.EngineConfig {
	cfg := mode{1, true, 48, "f16"}.config()
	cfg.Model = windowed(t)
	cfg.PartBytes = 1 // layers leave as soon as they are written
	return cfg
}

// TestLateReceiver: the decode engine registers when everything is computed, and gets every
// slice and the first token. The prefill engine has given its compute slot back meanwhile.
//
// req: PIPE-07, PIPE-13, PIPE-20
func TestLateReceiver(t *testing.T) {
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { cfg.MaxSeqs = 1 }})
	r := e2etest.Request{Prompt: tokens(300, 4)}.With(seeded).With(map[string]any{"logprobs": 2})
	want := aggregated.Answer(t, cfg, r)

	p := askPrefill(c.P[0], r, "late")
	c.P[0].Holds(t, "the prompt is in the prefill engine", func(n engine.Counts) bool { return n.Send == 1 && n.Running == 1 })
	// The one slot is free: another prompt is computed, and answered, while the blocks are held.
	other := e2etest.Request{Prompt: tokens(100, 5)}.With(greedy)
	if l := come(t, "prefill engine", ask(c.P[0].Client, other)); l.err != nil {
		t.Fatalf("a request while another's blocks are held: %v", l.err)
	}
	c.P[0].Holds(t, "the first request's blocks are held", func(n engine.Counts) bool { return n.Send == 1 && n.Free < n.Blocks })

	got := come(t, "decode engine", ask(c.D[0].Client, decodeLeg(r, "late", c.P[0])))
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := got.answer.Differs(want); err != nil {
		t.Error(err)
	}
	wellSent(t, come(t, "prefill engine", p), 300, slicesOf(300, 48, 16))
}

// wellSent checks a prefill leg's reply: how many slices were sent, and for which prompt.
func wellSent(t *testing.T, l later, prompt, slices int) {
	t.Helper()
	switch {
	case l.err != nil:
		t.Errorf("prefill leg: %v", l.err)
	case l.reply.Usage.PromptTokens != prompt || l.reply.Kvferry.Slices != slices || l.reply.Kvferry.Bytes == 0:
		t.Errorf("prefill leg: %+v, want %d slices of %d tokens", l.reply, slices, prompt)
	}
}

// TestEarlyReceiver: the registration comes before the request, and waits for it.
//
// req: PIPE-13
func TestEarlyReceiver(t *testing.T) {
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{Engine: cfg})
	r := e2etest.Request{Prompt: tokens(300, 6)}.With(greedy).With(map[string]any{"logprobs": 2})
	want := aggregated.Answer(t, cfg, r)
	d := ask(c.D[0].Client, decodeLeg(r, "early", c.P[0]))
	c.P[0].Holds(t, "the registration waits", func(n engine.Counts) bool { return n.Parked == 1 })
	p := askPrefill(c.P[0], r, "early")
	got := come(t, "decode engine", d)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := got.answer.Differs(want); err != nil {
		t.Error(err)
	}
	wellSent(t, come(t, "prefill engine", p), 300, slicesOf(300, 48, 16))
}

// TestOtherPromptUnderOneID: engines that were given different prompts under one ID exchange
// no KV, whichever comes first, and both say why.
//
// req: PIPE-34
func TestOtherPromptUnderOneID(t *testing.T) {
	cfg := smallConfig(t)
	s := startSpied(t, cfg)
	a := e2etest.Request{Prompt: tokens(100, 7)}.With(greedy)
	sameLength := tokens(100, 7)
	sameLength[99]++
	for name, tc := range map[string]struct {
		prompt []int32
		why    string
		early  bool
	}{
		"other tokens":       {sameLength, "the prompt's tokens differ", false},
		"other tokens early": {sameLength, "the prompt's tokens differ", true},
		"one token less":     {tokens(100, 7)[:99], "prompt_len is 100 here and 99 there", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := e2etest.Request{Prompt: tc.prompt}.With(greedy)
			id := strings.ReplaceAll(name, " ", "-")
			var p, d <-chan later
			if tc.early {
				d = ask(s.D[0].Client, decodeLeg(b, id, s.P[0]))
				s.P[0].Holds(t, "the registration waits", func(n engine.Counts) bool { return n.Parked == 1 })
				p = askPrefill(s.P[0], a, id)
			} else {
				p = askPrefill(s.P[0], a, id)
				s.P[0].Holds(t, "the prompt is here", func(n engine.Counts) bool { return n.Send == 1 })
				d = ask(s.D[0].Client, decodeLeg(b, id, s.P[0]))
			}
			fails(t, "prefill leg", come(t, "prefill engine", p).err, http.StatusBadGateway, tc.why)
			fails(t, "decode leg", come(t, "decode engine", d).err, http.StatusBadGateway, tc.why)
			s.AwaitIdle(t)
			if writes, _, _ := s.p.saw(); len(writes) > 0 {
				t.Errorf("%d slices were written", len(writes))
			}
		})
	}
}

// TestLonelyLegs: a leg whose other half never comes ends with the transfer's time-out, or as
// soon as it is known that nobody will come.
//
// req: PIPE-18, PIPE-19
func TestLonelyLegs(t *testing.T) {
	cfg := smallConfig(t)
	cfg.TransferTimeout = 300 * time.Millisecond
	c := e2etest.Start(t, e2etest.Options{Engine: cfg})
	r := e2etest.Request{Prompt: tokens(100, 8)}.With(greedy)

	fails(t, "nobody registers", come(t, "prefill engine", askPrefill(c.P[0], r, "alone")).err,
		http.StatusGatewayTimeout, "the receiver did not register")
	fails(t, "the prefill leg has ended", come(t, "decode engine", ask(c.D[0].Client, decodeLeg(r, "alone", c.P[0]))).err,
		http.StatusBadGateway, "the receiver did not register")
	if e := come(t, "decode engine", ask(c.D[0].Client, decodeLeg(r, "alone-too", c.P[0]))).err; e == nil {
		t.Error("a decode leg without a prefill leg was answered")
	} else if oe := new(openai.Error); !errors.As(e, &oe) || oe.Status < 502 {
		t.Errorf("a decode leg without a prefill leg: %v", e)
	}
	c.AwaitIdle(t)

	gone := decodeLeg(r, "nowhere", c.P[0])
	gone.Params["disaggregated_params"] = openai.Disagg{
		RequestType: openai.GenerationOnly, RequestID: "nowhere", ScheduleStyle: openai.GenerationFirst,
		CtxInfoEndpoint: "127.0.0.1:1",
	}
	fails(t, "nobody listens", come(t, "decode engine", ask(c.D[0].Client, gone)).err, http.StatusBadGateway, "peer lost")
}

// TestWrongLegs: an engine refuses what it cannot be asked for.
//
// req: PIPE-21, SERVE-03
func TestWrongLegs(t *testing.T) {
	c := e2etest.Start(t, e2etest.Options{Engine: smallConfig(t)})
	r := e2etest.Request{Prompt: tokens(20, 9)}.With(greedy)
	fails(t, "prefill leg on a decode engine", come(t, "engine", askPrefill(c.D[0], r, "x")).err,
		http.StatusBadRequest, "does not play that role")
	fails(t, "decode leg on a prefill engine", come(t, "engine", ask(c.P[0].Client, decodeLeg(r, "x", c.P[0]))).err,
		http.StatusBadRequest, "does not play that role")
	first := r.With(map[string]any{"disaggregated_params": map[string]any{
		"request_type": openai.ContextOnly, "disagg_request_id": "y", "schedule_style": 0,
	}})
	fails(t, "context_first", come(t, "engine", ask(c.P[0].Client, first)).err, http.StatusBadRequest, "schedule_style")
	p := askPrefill(c.P[0], r, "twice")
	c.P[0].Holds(t, "the first is here", func(n engine.Counts) bool { return n.Send == 1 })
	fails(t, "an ID twice", come(t, "engine", askPrefill(c.P[0], r, "twice")).err,
		http.StatusBadRequest, "is here already")
	if l := come(t, "engine", ask(c.D[0].Client, decodeLeg(r, "twice", c.P[0]))); l.err != nil {
		t.Errorf("the first of the ID: %v", l.err)
	}
	wellSent(t, come(t, "engine", p), 20, 1)
}

// TestAggregatedOnEveryRole: engines of a pair serve whole requests too, beside their legs.
//
// req: PIPE-25
func TestAggregatedOnEveryRole(t *testing.T) {
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{Engine: cfg})
	requests := mixed()
	type job struct {
		name, url string
		answer    <-chan later
	}
	var jobs []job
	for name, r := range requests {
		for _, at := range []*e2etest.Client{c.P[0].Client, c.D[0].Client, c.Client} {
			jobs = append(jobs, job{name, at.URL, ask(at, r)})
		}
	}
	for _, j := range jobs {
		l := come(t, j.name, j.answer)
		if l.err == nil {
			l.err = l.answer.Differs(aggregated.Answer(t, cfg, requests[j.name]))
		}
		if l.err != nil {
			t.Errorf("%s on %s: %v", j.name, j.url, l.err)
		}
	}
}
