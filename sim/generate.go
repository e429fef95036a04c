package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"kvferry/engine"
)

// Names are the names of what can be switched on in a generated plan: the faults, and three
// ways in which the cluster itself is made hard. Reorder gives a link several bulk connections
// and every message a delay of its own, pressure makes the pools so small that requests wait
// for each other's blocks, nofence takes the agents' fence away.
var Names = []string{
	"cancel", "corrupt", "crash", "delay", "drop", "duplicate", "garble", "heartbeat", "lose", "nofence",
	"partition", "passfail", "pressure", "reorder", "slow", "stall",
}

// Faults says which names are switched on.
type Faults map[string]bool

// ParseFaults reads a list of names, or all, or none.
func ParseFaults(list string) (Faults, error) {
	f := Faults{}
	switch list {
	case "none":
		return f, nil
	case "all":
		list = strings.Join(Names, ",")
	}
	for _, name := range strings.Split(list, ",") {
		if !slices.Contains(Names, name) {
			return nil, fmt.Errorf("no fault is named %q: want all, none, or some of %s", name, strings.Join(Names, ","))
		}
		f[name] = true
	}
	return f, nil
}

// Nodes fixes how many engines of each kind a generated cluster has; 0 leaves it to the seed.
type Nodes struct{ Prefill, Decode int }

// dice are a seed's draws.
type dice struct{ *rand.Rand }

// between draws from [lo,hi].
func (d dice) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

func (d dice) spell(lo, hi time.Duration) int64 { return int64(lo) + d.Int64N(int64(hi-lo)+1) }

// one says yes once in n.
func (d dice) one(n int) bool { return d.IntN(n) == 0 }

func choose[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// Generate draws a plan.
func Generate(seed uint64, on Faults, nodes Nodes) Plan {
	d := dice{rand.New(rand.NewPCG(seed, 0x6b76666572727921))}
	p := Plan{Seed: seed}
	p.Cluster = d.cluster(on, nodes)
	d.style(&p.Cluster, on)
	p.Cluster.Parts = choose(dice{rand.New(rand.NewPCG(seed, 0x7061727473))}, 0, 1, 1, 8*cellSize)
	names := p.Cluster.names()
	n := d.between(1, 12)
	for range n {
		r := d.request(p, names)
		d.held(p, &r)
		p.Requests = append(p.Requests, r)
	}
	d.pools(&p, on["pressure"])
	d.slots(&p, on["pressure"])
	if on["pressure"] && d.one(4) {
		d.crowd(&p)
		if on["slow"] && d.one(2) {
			d.starve(&p, on)
		}
	}
	if !on["slow"] {
		// The links are fast enough for all blocks of all requests within the time-out.
		p.Cluster.BlockTime = max(1, p.Cluster.BlockTime*min(p.Cluster.Timeout/3, p.wire())/p.wire())
	}
	if d.one(6) {
		d.couple(&p, on)
	}
	for range d.between(0, 6) {
		if f, ok := d.fault(p, on); ok {
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

func (d dice) cluster(on Faults, nodes Nodes) Cluster {
	c := Cluster{
		Prefill: d.between(1, 2), Decode: d.between(1, 2), Whole: d.between(0, 1),
		BlockTokens: d.between(1, 5), Windows: []int{0}, Layers: d.between(1, 2),
		Seqs: d.between(12, 14), Queue: 16,
		Chunk: d.between(1, 9), Pipelined: !d.one(4), Fencing: true,
		Timeout: d.spell(60*time.Millisecond, 200*time.Millisecond), DeadAfter: d.spell(20*time.Millisecond, 400*time.Millisecond),
		Latency: d.spell(20*time.Microsecond, time.Millisecond), Jitter: 1000,
		Lanes: 1, BlockTime: d.spell(10*time.Microsecond, 2*time.Millisecond),
		Pass: d.spell(200*time.Microsecond, 3*time.Millisecond), PassToken: d.spell(0, 500*time.Microsecond),
	}
	if nodes.Prefill > 0 {
		c.Prefill = nodes.Prefill
	}
	if nodes.Decode > 0 {
		c.Decode = nodes.Decode
	}
	for range d.between(0, 2) {
		c.Windows = append(c.Windows, d.between(1, 12))
	}
	if d.one(6) {
		c.Windows[len(c.Windows)-1] = -1
	}
	if d.one(6) {
		c.Chunk, c.Pipelined = 0, false
	}
	d.shape(&c)
	if d.one(8) {
		c.Pass = c.Timeout / 4 // a prefill takes longer than a time-out
	}
	if on["delay"] && d.one(2) {
		c.Jitter = d.spell(0, 4*time.Millisecond)
	}
	if on["reorder"] && d.one(2) {
		c.Lanes = d.between(2, 3)
		c.Jitter = max(c.Jitter, 2*c.Latency)
	}
	if on["nofence"] && d.one(4) {
		c.Fencing = false
	}
	if on["pressure"] && d.one(4) {
		c.Seqs, c.Queue = d.between(1, 3), d.between(1, 8)
	}
	return c
}

// shape draws ranks and managers; half of the clusters have neither.
func (d dice) shape(c *Cluster) {
	c.Heads = d.between(1, 2)
	c.Checksum = d.one(3)
	if d.one(2) {
		return
	}
	layers := c.Layers * len(c.Windows)
	c.PrefillTensor, c.DecodeTensor = d.between(1, 2), d.between(1, 2)
	c.PrefillStages, c.DecodeStages = d.between(1, min(2, layers)), d.between(1, min(2, layers))
	c.PrefillGrow, c.DecodeGrow = d.one(2), d.one(2)
	c.PrefillReuse, c.DecodeReuse = d.one(2), d.one(2)
}

func (d dice) request(p Plan, names []string) Request {
	c := p.Cluster
	within := choose(d, time.Millisecond, 20*time.Millisecond)
	r := Request{
		At: d.spell(0, within), Prompt: d.between(1, 24), Max: d.between(1, 6),
		IgnoreEOS: d.one(2),
		Prefill:   fmt.Sprintf("p%d", d.IntN(c.Prefill)), Decode: fmt.Sprintf("d%d", d.IntN(c.Decode)),
	}
	switch d.IntN(4) {
	case 0:
		r.Skew = d.spell(-30*time.Millisecond, 30*time.Millisecond)
	case 1:
		r.Skew = d.spell(-time.Millisecond, time.Millisecond)
	}
	if n := len(p.Requests); n > 0 && d.one(2) {
		r.Like, r.Alike = d.between(1, n), d.between(1, 24)
	}
	if d.one(8) {
		r.Prefill, r.Decode = "", choose(d, names...)
	}
	return r
}

// pools sizes the pools for all requests at once, or under pressure for little more than the
// longest.
func (d dice) pools(p *Plan, pressure bool) {
	longest, all := 0, 0
	for _, r := range p.Requests {
		n := ceilDiv(p.prompt(r)+r.Max, p.Cluster.BlockTokens)
		longest, all = max(longest, n), all+n+1
		if r.Twin != "" || r.Second != "" {
			all += n + 1
		}
	}
	size := func() int {
		if pressure && d.one(2) {
			return longest + d.IntN(longest+1)
		}
		return all + 2
	}
	p.Cluster.PrefillBlocks, p.Cluster.DecodeBlocks = max(probeBlocks, size()), max(probeBlocks, size())
}

// crowd has all requests come at once to one prefill engine, which takes blocks as it needs them
// and has few, over links that are never its bottleneck: so a request waits in mid-prefill with
// nothing in flight, and may have to give way.
func (d dice) crowd(p *Plan) {
	c := &p.Cluster
	c.PrefillGrow, c.Chunk, c.Pipelined = true, d.between(2, 40), true
	longest := 0
	for _, r := range p.Requests {
		longest = max(longest, ceilDiv(p.prompt(r)+r.Max, c.BlockTokens))
	}
	c.PrefillBlocks = max(probeBlocks, longest+d.IntN(longest/2+1))
	c.BlockTime, c.Latency = int64(time.Microsecond), d.spell(time.Microsecond, 50*time.Microsecond)
	for i := range p.Requests {
		r := &p.Requests[i]
		r.At = d.spell(0, time.Millisecond)
		if r.Prefill != "" {
			r.Prefill = "p0"
		}
	}
}

// starve makes the first request's link so slow that it holds most of the prefill engine's
// blocks for long, while the second has begun and cannot go on; and strikes that one.
func (d dice) starve(p *Plan, on Faults) {
	c := &p.Cluster
	c.Decode, c.Seqs, c.Chunk, c.PassToken = max(2, c.Decode), 14, d.between(4, 8), 0
	p.Requests[0] = Request{Prompt: 24, Max: 1, IgnoreEOS: true, Prefill: "p0", Decode: "d0"}
	for i := range p.Requests[1:] {
		r := &p.Requests[i+1]
		*r = Request{At: int64(1 + i), Prompt: r.Prompt, Max: r.Max, Skew: r.Skew, Like: r.Like, Alike: r.Alike, Prefill: "p0", Decode: "d1"}
		if i == 0 {
			r.Prompt, r.Skew, r.Like = 24, choose(d, 0, d.spell(0, 40*time.Millisecond)), 0
		}
	}
	first := ceilDiv(24, c.BlockTokens)
	c.PrefillBlocks = first + ceilDiv(c.Chunk, c.BlockTokens) + d.between(0, 1)
	c.DecodeBlocks = max(c.DecodeBlocks, 4*first)
	slow := c.Timeout / 2 / c.BlockTime / int64(first)
	p.Faults = []Fault{{Kind: Slow, Node: "p0", Peer: "d0", For: c.Timeout / 2, By: int(slow)}}
	passes := time.Duration(c.Pass) * time.Duration(24/c.Chunk)
	strike := Fault{Kind: Drop, Node: "p0", Peer: "d1", At: d.spell(passes, 3*passes)}
	if len(p.Requests) > 1 && on["cancel"] && d.one(2) {
		strike = Fault{Kind: Cancel, Request: 2, Leg: choose(d, "prefill", "decode"), At: strike.At}
	}
	if on[string(strike.Kind)] {
		p.Faults = append(p.Faults, strike)
	}
}

// fault draws one fault of those that are switched on.
func (d dice) fault(p Plan, on Faults) (Fault, bool) {
	var kinds, garble, beats []Kind
	if p.holds() || p.Cluster.ReadOnly {
		beats = []Kind{Mute, Mute, Mute, Lag, Echo}
	}
	if p.Cluster.Checksum && !p.Cluster.ReadOnly {
		garble = []Kind{Garble} // nothing else could see it
	}
	for _, k := range []struct {
		name  string
		kinds []Kind
	}{
		{"cancel", []Kind{Cancel, Cancel}},
		{"corrupt", []Kind{Corrupt}},
		{"crash", []Kind{Crash}},
		{"delay", []Kind{Delay}},
		{"drop", []Kind{Drop}},
		{"duplicate", []Kind{Duplicate}},
		{"garble", garble},
		{"heartbeat", beats},
		{"lose", []Kind{Lose}},
		{"partition", []Kind{Partition}},
		{"passfail", []Kind{PassFail}},
		{"slow", []Kind{Slow}},
		{"stall", []Kind{Stall, Freeze, Stop}},
	} {
		if on[k.name] {
			kinds = append(kinds, k.kinds...)
		}
	}
	if len(kinds) == 0 {
		return Fault{}, false
	}
	f := Fault{Kind: choose(d, kinds...)}
	d.trigger(p, &f)
	d.target(p, &f)
	return f, true
}

// trigger draws what sets a fault off: mostly a point that a request passes, for that is where
// the races are.
func (d dice) trigger(p Plan, f *Fault) {
	f.Request = d.between(1, len(p.Requests))
	switch {
	case f.Kind == Garble:
		f.On = AtRead
	case f.Kind.isInline():
		points := []Point{AtRegister, AtWithdraw, AtProgress, AtEnding}
		if p.Cluster.Slots > 0 {
			points = append(points, AtAnnounce, AtComplete, AtComplete)
		}
		if f.Kind == Duplicate {
			points = append(points, AtResult, AtResult, AtResult)
		}
		if f.Kind == Corrupt {
			points = []Point{AtRegister, AtResult}
		}
		f.On = choose(d, points...)
	case d.one(6):
		f.At = d.spell(0, 50*time.Millisecond)
		return
	default:
		points := []Point{AtSubmit, AtPass, AtPass, AtRegister, AtComputed, AtComputed, AtPull, AtPull, AtPull, AtSlots, AtSlots, AtComplete, AtFinish, AtFinish, AtToken, AtAnnounce}
		if p.Cluster.Slots > 0 && !d.one(3) {
			f.On = choose(d, points...)
			f.After = choose(d, 0, 0, d.spell(0, 100*time.Microsecond), d.spell(0, 3*time.Millisecond))
			break
		}
		f.On = choose(d, AtSubmit, AtRegister, AtPass, AtComputed, AtCopy, AtRead, AtLand, AtResult,
			AtAcked, AtRevoke, AtRevoked, AtToken, AtFinish)
		f.After = choose(d, 0, 0, d.spell(0, 100*time.Microsecond), d.spell(0, 3*time.Millisecond))
	}
	f.Nth = choose(d, 1, 1, 2, d.between(1, 6))
}

// target draws whom a fault strikes and for how long; mostly those that serve the request which
// sets it off.
func (d dice) target(p Plan, f *Fault) {
	r := p.Requests[f.Request-1]
	prefill, decode := r.Prefill, r.Decode
	if prefill == "" || d.one(4) {
		prefill, decode = fmt.Sprintf("p%d", d.IntN(p.Cluster.Prefill)), fmt.Sprintf("d%d", d.IntN(p.Cluster.Decode))
	}
	timeout := time.Duration(p.Cluster.Timeout)
	switch f.Kind {
	case Cancel:
		f.Leg = choose(d, "", "", "prefill", "decode")
		if d.one(3) {
			f.Victim = d.between(1, len(p.Requests))
		}
	case Crash:
		f.Node, f.Host = choose(d, prefill, decode), d.one(4)
		f.For = choose(d, 0, d.spell(0, 2*time.Millisecond), d.spell(0, timeout))
	case Stall, Freeze, Stop:
		f.Node = choose(d, prefill, decode)
		f.For = choose(d, d.spell(0, 5*time.Millisecond), d.spell(0, 2*timeout))
	case PassFail:
		f.Node = choose(d, prefill, prefill, decode)
	case Mute, Lag, Echo:
		f.Node, f.Peer = prefill, decode
		f.For = d.spell(time.Millisecond, 2*time.Duration(p.Cluster.lease()))
		f.Lateness = d.spell(0, time.Duration(p.Cluster.lease()))
	case Partition, Drop, Slow:
		f.Node, f.Peer = prefill, decode
		f.For = choose(d, d.spell(0, 5*time.Millisecond), d.spell(0, 2*timeout))
		f.By = 1 << d.between(1, 8)
	case Delay, Duplicate:
		f.For = choose(d, d.spell(0, time.Millisecond), d.spell(0, 20*time.Millisecond), d.spell(0, 2*timeout))
	case Corrupt:
		f.Field = choose(d, Fields[f.On]...)
		if f.Field == "early" && (!p.Cluster.Fencing || p.Cluster.parallel(engine.Prefill).Ranks() > 1) {
			f.Field = "short" // nothing could see through the lie, for the aux may be there
		}
	}
	if f.Kind != Cancel && f.On == "" {
		f.Request = 0
	}
	if f.Kind != Lag && f.Kind != Echo {
		f.Lateness = 0
	}
	if f.Kind != Slow {
		f.By = 0
	}
	if f.Kind == Drop {
		f.For = 0
	}
}
