package engine

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

// TestCluster serves random load by prefill and decode engines whose copies are real bytes.
// Chunks do not divide blocks, prompts are from one token on and begin alike, there are
// windows, both managers, reuse on any side, one or two ranks, several requests at once and
// compute slots and blocks for few of them.
//
// In a calm run nothing fails, and every answer is the aggregated engine's. In a storm
// requests are aborted, passes fail, connections break, processes die and time passes: then
// every answer is a beginning of that answer and has one end. After either every engine holds
// nothing.
//
// req: PIPE-03
// req: PIPE-07
// req: PIPE-08
// req: PIPE-09
// req: PIPE-10
// req: PIPE-13
// req: PIPE-16
// req: PIPE-18
// req: PIPE-19
// req: PIPE-25
// req: PIPE-26
// req: PIPE-30
// req: PIPE-32
// req: PIPE-35
// req: PIPE-36
// req: SERVE-02
// case: 05
// case: 13
// case: 18
// case: 19
func TestCluster(t *testing.T) {
	for name, storm := range map[string]bool{"calm": false, "storm": true} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				rapid.Check(t, func(t *rapid.T) { serveAtRandom(t, storm) })
			}
		})
	}
}

func serveAtRandom(t *rapid.T, storm bool) {
	d := &driver{t: t, storm: storm, c: drawCluster(t, storm)}
	for i := range rapid.IntRange(1, 5).Draw(t, "requests") {
		d.request(i)
	}
	if storm {
		d.faults = rapid.IntRange(0, 4).Draw(t, "faults")
	}
	for range rapid.IntRange(0, 150).Draw(t, "steps") {
		if acts := d.enabled(); len(acts) > 0 {
			d.act(pick(t, acts, "action"))
		}
	}
	d.storm, d.faults = false, 0
	d.drain(storm)
	if !storm {
		for _, r := range d.c.requests {
			for _, h := range []*host{r.p, r.d} {
				if h != nil && h.answers[r.req.ID].finish.Err != nil {
					t.Fatalf("%s fails on %s in calm: %v", r.req.ID, h.addr, h.answers[r.req.ID].finish.Err)
				}
			}
		}
	}
}

func drawCluster(t *rapid.T, storm bool) *cluster {
	var windows []int
	for range rapid.IntRange(1, 2).Draw(t, "groups") {
		windows = append(windows, rapid.SampledFrom([]int{0, 1, 5, 9}).Draw(t, "window"))
	}
	c := &cluster{t: t, layout: layoutOf(rapid.IntRange(1, 5).Draw(t, "tpb"), windows...), fencing: rapid.Bool().Draw(t, "fencing")}
	host := func(role Role, name string) *host {
		cfg := Config{
			Role: role, Layout: c.layout, MaxSeqs: rapid.IntRange(1, 3).Draw(t, "slots"), MaxWaiting: 99,
			Chunked: rapid.Bool().Draw(t, "chunked"), ChunkTokens: rapid.IntRange(1, 9).Draw(t, "chunk"),
			Timeout: 12, Context: 40, Ends: []int32{0}, Text: letter, Fencing: c.fencing,
		}
		cfg.Grow, cfg.Reuse = rapid.Bool().Draw(t, "grow"), rapid.Bool().Draw(t, "reuse")
		cfg.Parallel = kvcache.Parallel{Tensor: rapid.IntRange(1, 2).Draw(t, "ranks"), Pipeline: 1}
		cfg.Pipelined = cfg.Chunked && rapid.Bool().Draw(t, "pipelined")
		for range windows {
			blocks := 200
			if storm {
				blocks = rapid.IntRange(20, 80).Draw(t, "blocks") / c.layout.BlockTokens
			}
			cfg.Blocks = append(cfg.Blocks, blocks)
		}
		return c.newHost(name, cfg)
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "prefills") {
		c.prefills = append(c.prefills, host(Prefill, fmt.Sprint("p", i)))
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "decodes") {
		c.decodes = append(c.decodes, host(Decode, fmt.Sprint("d", i)))
	}
	return c
}

// driver makes things happen in a cluster.
type driver struct {
	t      *rapid.T
	c      *cluster
	storm  bool
	faults int
}

// request draws what a client wants. Its legs are asked later, in either order.
func (d *driver) request(i int) {
	t := d.t
	r := Request{
		ID: fmt.Sprint("r", i), MaxTokens: rapid.IntRange(1, 8).Draw(t, "max"), IgnoreEOS: rapid.Bool().Draw(t, "ignore eos"),
		Tokens:   rapid.SliceOfN(rapid.Int32Range(1, toyVocab-1), 1, 25).Draw(t, "prompt"),
		Stop:     rapid.SampledFrom([][]string{nil, nil, {"b"}, {"cd", "ae"}}).Draw(t, "stop"),
		Logprobs: rapid.IntRange(-1, 2).Draw(t, "logprobs"),
		Sampling: Sampling{Temperature: rapid.SampledFrom([]float64{0, 1}).Draw(t, "temperature"), TopP: 1, Seed: uint64(i)},
	}
	if n := len(d.c.requests); n > 0 && rapid.Bool().Draw(t, "begins alike") {
		other := d.c.requests[rapid.IntRange(0, n-1).Draw(t, "as")].req.Tokens
		r.Tokens = append(slices.Clone(other[:rapid.IntRange(1, len(other)).Draw(t, "alike")]), r.Tokens[:len(r.Tokens)/3]...)
	}
	w := &wanted{req: r, d: pick(t, d.c.decodes, "decode")}
	w.tokens, w.text, w.reason = alone(d.c.layout, r)
	w.legs = []*host{w.d}
	if rapid.IntRange(0, 5).Draw(t, "whole") > 0 {
		w.p = pick(t, d.c.prefills, "prefill")
		w.req.Peer = w.p.addr
		w.legs = append(w.legs, w.p)
	}
	d.c.requests = append(d.c.requests, w)
}

// ask gives a request to one of the engines that are to have it, or to what took its place.
func (d *driver) ask(w *wanted, i int) {
	was := w.legs[i]
	w.legs = slices.Delete(w.legs, i, i+1)
	h := d.c.hostAt(was.addr)
	r := w.req
	switch {
	case w.p == nil:
		w.d = h
	case was == w.p:
		r.Leg, w.p = PrefillLeg, h
	default:
		r.Leg, w.d = DecodeLeg, h
	}
	h.answers[r.ID] = &answer{want: w, leg: r.Leg}
	h.step(Submit{r})
}
