package sim

import (
	"errors"
	"fmt"
	"slices"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/wire"
)

var errPass = errors.New("the device failed")

// pass is the forward pass that is out.
type pass struct {
	number uint64
	batch  []engine.Work
	fails  bool
	began  int64
	copied bool // the copies that come before it are made
}

// compute starts a forward pass of the toy model.
func (p *proc) compute(o engine.Compute) {
	w := p.w
	if p.pass != nil {
		w.fail("protocol", "%s: two forward passes at a time", p.node.name)
		return
	}
	ps := &pass{number: o.Pass, batch: o.Batch, fails: p.passFail, began: w.now}
	p.pass, p.passFail = ps, false
	tokens := 0
	for _, work := range o.Batch {
		r := w.indexOf(work.Request)
		w.note("pass", p.node.index, r, work.Start)
		w.logf("%s computes %s [%d,%d)", p.node.name, work.Request, work.Start, work.Start+len(work.Tokens))
		p.checkWork(r, work)
		p.touch(r, work, 1)
		tokens += len(work.Tokens)
		w.hook(r, AtPass)
	}
	d := w.plan.Cluster.Pass + int64(tokens)*w.plan.Cluster.PassToken
	p.reportLayers(ps, d)
	w.after(d, func() { p.computed(ps) })
}

// reportLayers has the pass write its layers one after the other where that is of use, and tell of
// them; what it tells may come when the pass is over.
func (p *proc) reportLayers(ps *pass, d int64) {
	w := p.w
	if !slices.ContainsFunc(ps.batch, func(work engine.Work) bool { return work.Layers }) {
		return
	}
	layers := w.plan.Cluster.Layers * len(w.plan.Cluster.Windows)
	for through := 1; through <= layers; through++ {
		ev := engine.LayersComputed{Pass: ps.number, Through: slices.Repeat([]int{through}, len(ps.batch))}
		w.after(d*int64(through)/int64(layers+1), func() { p.writeLayers(ps, through) })
		late := w.jitter('l', ps.number, uint64(through)) / 4
		w.after(d*int64(through)/int64(layers+1)+late, func() { p.deliver(ev) })
	}
}

// writeLayers writes what a pass has computed of the layers below through.
func (p *proc) writeLayers(ps *pass, through int) {
	if p.dead || p.w.bad != nil {
		return
	}
	p.copyBlocks(ps)
	for _, work := range ps.batch {
		r := p.w.indexOf(work.Request)
		for g, group := range p.w.layout.Groups {
			if group.Recurrent() {
				continue // the tokens are not through it
			}
			tpb := p.w.layout.BlockTokens
			for pos := work.Start; pos < work.Start+len(work.Tokens); pos++ {
				b := work.Tables[g].Block(pos / tpb)
				for rank, s := range p.mem.shards {
					p.writeCells(r, g, rank, s, b, pos, through)
				}
			}
		}
	}
}

// writeCells writes a token's cells of the layers below through, on one rank.
func (p *proc) writeCells(r, g, rank int, s kvcache.Shard, b kvcache.BlockID, pos, through int) {
	block := p.mem.block(rank, g, b)
	for layer := s.Layers[g].Start; layer < s.Layers[g].End && p.w.layout.Groups[g].Layers[layer] < through; layer++ {
		for kv := range 2 {
			for head := s.Heads.Start; head < s.Heads.End; head++ {
				at := s.HeadOffset(g, layer, kv, head) + pos%p.w.layout.BlockTokens*cellSize
				putCell(block[at:], p.w.requests[r].seq.cell(g, layer, kv, head, pos))
			}
		}
	}
}

// copyBlocks makes a pass's copies, once.
func (p *proc) copyBlocks(ps *pass) {
	if ps.copied {
		return
	}
	ps.copied = true
	for _, work := range ps.batch {
		for _, c := range work.Copies {
			for rank := range p.mem.shards {
				copy(p.mem.block(rank, c.Group, c.To), p.mem.block(rank, c.Group, c.From))
			}
		}
	}
}

// checkWork looks whether the tokens are the request's own at that place.
func (p *proc) checkWork(r int, work engine.Work) {
	seq := p.w.requests[r].seq
	if work.Start+len(work.Tokens) > len(seq.tokens) {
		p.w.fail("right tokens", "%s computes %s past its answer: [%d,%d) of %d",
			p.node.name, work.Request, work.Start, work.Start+len(work.Tokens), len(seq.tokens))
		return
	}
	for i, t := range work.Tokens {
		if want := seq.tokens[work.Start+i]; t != want {
			p.w.fail("right tokens", "%s: token %d of %s is %d and has to be %d", p.node.name, work.Start+i, work.Request, t, want)
			return
		}
	}
}

// touch counts a pass as a user of its request's blocks, in or out.
func (p *proc) touch(r int, work engine.Work, d int) {
	for g, t := range work.Tables {
		for _, b := range t.Blocks {
			p.touchBlock(r, g, b, d)
		}
	}
	for _, c := range work.Copies {
		p.touchBlock(r, c.Group, c.From, d)
	}
}

func (p *proc) touchBlock(r, g int, b kvcache.BlockID, d int) {
	h := p.mem.slot(g, b).holder(r)
	if h == nil {
		p.w.fail("no touch after release", "%s: a pass of %s uses block %d of group %d, which is not its own", p.node.name, p.w.id(r), b, g)
		return
	}
	if h.reads > 0 {
		p.w.fail("no touch after release", "%s: a pass of %s uses block %d of group %d, which is being read into", p.node.name, p.w.id(r), b, g)
	}
	h.uses += d
}

// computed ends a pass: the KV it reads is checked, what it computes is written, and tokens
// are drawn.
func (p *proc) computed(ps *pass) {
	w := p.w
	if p.dead {
		return
	}
	p.pass = nil
	var ev engine.Computed
	if ps.fails {
		ev.Err = errPass
	}
	for _, work := range ps.batch {
		r := w.indexOf(work.Request)
		p.touch(r, work, -1)
		w.trace.span(p.node, "compute", fmt.Sprintf("%s [%d,%d)", work.Request, work.Start, work.Start+len(work.Tokens)), ps.began, w.now)
		if ps.fails || w.bad != nil {
			continue
		}
		p.copyBlocks(ps)
		p.runWork(r, work)
		if work.Sample != nil && w.bad == nil {
			ev.Results = append(ev.Results, p.sample(r, work))
		}
	}
	if w.bad != nil {
		return
	}
	for _, work := range ps.batch {
		w.hook(w.indexOf(work.Request), AtComputed)
	}
	if ps.fails {
		w.logf("%s: the pass failed", p.node.name)
	}
	p.deliver(ev)
}

// runWork is one request's share of a pass, on every rank and in every layer group.
func (p *proc) runWork(r int, work engine.Work) {
	for g, group := range p.w.layout.Groups {
		switch {
		case group.Recurrent():
			p.runState(r, work, g)
		default:
			p.runGroup(r, work, g, group.Window)
		}
	}
}

// runGroup reads the KV that the tokens see, and writes their own.
func (p *proc) runGroup(r int, work engine.Work, g, window int) {
	first := 0
	if window > 0 {
		first = max(0, work.Start-window+1)
	}
	tpb := p.w.layout.BlockTokens
	for pos := first; pos < work.Start+len(work.Tokens); pos++ {
		t := work.Tables[g]
		if pos/tpb < t.First || pos/tpb >= t.End() {
			p.w.fail("right bytes", "%s: %s needs block %d of group %d and has [%d,%d)", p.node.name, p.w.id(r), pos/tpb, g, t.First, t.End())
			return
		}
		b := t.Block(pos / tpb)
		if pos >= work.Start && !p.mem.slot(g, b).sole(r) {
			p.w.fail("one owner", "%s: %s writes token %d into block %d of group %d, which it shares", p.node.name, p.w.id(r), pos, b, g)
			return
		}
		for rank, s := range p.mem.shards {
			if !p.runCells(r, work, g, rank, s, b, pos) {
				return
			}
		}
	}
}

// runCells is one token on one rank.
func (p *proc) runCells(r int, work engine.Work, g, rank int, s kvcache.Shard, b kvcache.BlockID, pos int) bool {
	seq := p.w.requests[r].seq
	block := p.mem.block(rank, g, b)
	for layer := s.Layers[g].Start; layer < s.Layers[g].End; layer++ {
		for kv := range 2 {
			for head := s.Heads.Start; head < s.Heads.End; head++ {
				at := block[s.HeadOffset(g, layer, kv, head)+pos%p.w.layout.BlockTokens*cellSize:]
				want := seq.cell(g, layer, kv, head, pos)
				if pos >= work.Start {
					putCell(at, want)
				} else if got := getCell(at); got != want {
					p.w.fail("right bytes", "%s: %s reads wrong KV at token %d of group %d on rank %d (%x)", p.node.name, work.Request, pos, g, rank, got)
					return false
				}
			}
		}
	}
	return true
}

// runState reads a recurrent group's states as the tokens before left them, and moves them on.
func (p *proc) runState(r int, work engine.Work, g int) {
	seq := p.w.requests[r].seq
	if len(work.Tables[g].Blocks) != 1 || !p.mem.slot(g, work.Tables[g].Blocks[0]).sole(r) {
		p.w.fail("one owner", "%s: %s has %v for the states of group %d", p.node.name, p.w.id(r), work.Tables[g].Blocks, g)
		return
	}
	for rank, s := range p.mem.shards {
		block := p.mem.block(rank, g, work.Tables[g].Blocks[0])
		for layer := s.Layers[g].Start; layer < s.Layers[g].End; layer++ {
			at := block[s.StateOffset(g, layer):]
			if work.Start > 0 && getCell(at) != seq.state(g, layer, work.Start-1) {
				p.w.fail("right bytes", "%s: %s finds a wrong state at token %d in group %d on rank %d (%x)", p.node.name, work.Request, work.Start, g, rank, getCell(at))
				return
			}
			putCell(at, seq.state(g, layer, work.Start+len(work.Tokens)-1))
		}
	}
}

// sample draws the token after a share of a pass.
func (p *proc) sample(r int, work engine.Work) engine.Sampled {
	seq := p.w.requests[r].seq
	at := work.Start + len(work.Tokens)
	if work.Sample.Position != at {
		p.w.fail("right tokens", "%s: token %d of %s is to be drawn as token %d", p.node.name, at, work.Request, work.Sample.Position)
	}
	return engine.Sampled{TokenLogprob: wire.TokenLogprob{Token: drawn(seq.chain[at-1]), Logprob: float32(-at)}}
}
