package sim

import (
	"fmt"
	"time"
)

// shortLease is how many times the slowest message a lease has to last at least, if a request with
// which nothing is wrong is to be served.
const shortLease = 10

// style draws how KV comes to decode engines in a cluster: written, as it ever was; held and read
// by the handle; or read as it is announced.
func (d dice) style(c *Cluster, on Faults) {
	n := d.IntN(8)
	if n < 3 {
		return
	}
	c.ReadOnly = n == 7
	c.Recompute = d.one(2) || c.recurrent()
	c.Slots = 1 // until all requests are known
	if d.one(4) {
		c.Threshold = d.between(1, 8)
	}
	if d.one(2) {
		c.Drift = d.between(1, 200)
	}
	if !c.ReadOnly && d.one(2) {
		c.TurnTTL = choose(d, d.spell(time.Millisecond, 20*time.Millisecond), d.spell(20*time.Millisecond, 300*time.Millisecond))
	}
	c.Lease = int64(ampleLease)*(c.Latency+c.Jitter) + choose(d, d.spell(0, 3*time.Millisecond), d.spell(0, time.Second))
	if on["heartbeat"] && !d.one(4) {
		c.Lease = shortLease*(c.Latency+c.Jitter) + d.spell(time.Millisecond, 20*time.Millisecond)
	}
}

// held draws what is special about a request whose prompt is held. All prompts of a cluster are, or
// none is, as its router has it: a mixture can wait for itself, the prefill engine for the reader of
// a held prompt, and that for a receive whose prompt waits for the prefill engine's blocks.
func (d dice) held(p Plan, r *Request) {
	c := p.Cluster
	if c.Slots == 0 || c.ReadOnly || r.Prefill == "" {
		return
	}
	r.Hold = true
	r.Skew = 0 // the decode leg waits for the handle
	other := func() string { return fmt.Sprintf("d%d", d.IntN(c.Decode)) }
	switch d.IntN(6) {
	case 0:
		if r.Twin = other(); r.Twin == r.Decode {
			r.Twin = ""
		}
		r.Newer = r.Twin != "" && d.one(2)
	case 1, 2:
		r.Second = other()
	}
	if n := len(p.Requests); n > 0 && c.TurnTTL > 0 && d.one(2) {
		d.next(p, r, d.IntN(n))
	}
}

// next makes a request the next turn of an earlier one, most often on the engine that keeps that.
func (d dice) next(p Plan, r *Request, n int) {
	before := p.Requests[n]
	if !before.Hold || p.prompt(before) > 60 {
		return
	}
	r.After, r.Like, r.Alike = n+1, 0, 0
	r.Prompt = d.between(1, 8)
	r.At = choose(d, d.spell(0, time.Millisecond), d.spell(0, 30*time.Millisecond))
	if d.one(4) {
		r.Alike = d.between(1, p.prompt(before)+before.Max) // a tail that tokenised differently
	}
	if !d.one(4) && before.Decode != r.Twin {
		r.Decode = before.Decode
	}
}

// slots gives an engine lease slots for all requests, or under pressure hardly any.
func (d dice) slots(p *Plan, pressure bool) {
	switch {
	case p.Cluster.Slots == 0:
	case pressure && d.one(6):
		p.Cluster.Slots = d.between(1, 3)
	default:
		p.Cluster.Slots = 2 * (len(p.Requests) + 1)
	}
}

// couple draws two faults that strike one request together, which two draws hardly ever do.
func (d dice) couple(p *Plan, on Faults) {
	i := d.IntN(len(p.Requests))
	r := p.Requests[i]
	if r.Prefill == "" || !on["cancel"] {
		return
	}
	cancel := Fault{Kind: Cancel, Request: i + 1, On: AtPass, Nth: d.between(1, 3), After: d.spell(0, time.Duration(p.Cluster.Pass)), Leg: "prefill"}
	switch {
	case d.one(2) && on["passfail"]:
		// A leg is cancelled while a pass computes it, and the pass fails.
		p.Faults = append(p.Faults, cancel, Fault{Kind: PassFail, Request: i + 1, On: AtPass, Nth: cancel.Nth, Node: r.Prefill})
	case p.Cluster.ReadOnly && on["lose"]:
		// A reader gives up whose registration never came.
		cancel.Leg, cancel.On = "decode", choose(d, AtPass, AtComputed)
		p.Faults = append(p.Faults, cancel, Fault{Kind: Lose, Request: i + 1, On: AtRegister, Nth: 1})
	case r.Hold:
		// A prefill is cancelled between two of its passes.
		cancel.On = AtComputed
		p.Faults = append(p.Faults, cancel)
	}
}
