package emulated

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/runner"
)

// verify reads what the layers see of a sequence before w.Start, and gives the link of the
// last position there.
func (r *Runner) verify(w *runner.Work) (link, error) {
	if w.Start == 0 {
		return r.root, nil
	}
	var last link
	for g := range r.groups {
		got, err := r.groups[g].verify(w.Tables[g], w.Start, r.root, r.passes)
		if err != nil {
			return 0, err
		}
		if g > 0 && got != last {
			p := &r.groups[g].pattern
			block := int(w.Tables[g].Block((w.Start - 1) / r.layout.BlockTokens))
			return 0, p.mismatch(block, w.Start-1, row{}, "another prompt's than in layer group 0")
		}
		last = got
	}
	return last, nil
}

// group is one layer group: its pool, how it is filled, and what is known of it.
type group struct {
	pattern
	known
	pool []byte
}

// block is the memory of a block.
func (g *group) block(b int) []byte {
	n := g.layout.BlockBytes(g.group)
	return g.pool[b*n : (b+1)*n : (b+1)*n]
}

// verify walks the blocks that hold the positions before start that the token there sees.
func (g *group) verify(t kvcache.BlockTable, start int, root link, pass uint64) (link, error) {
	tpb := g.layout.BlockTokens
	first := visibleFrom(start, g.layout.Groups[g.pattern.group].Window)
	if err := g.inside(t, first, start); err != nil {
		return 0, err
	}
	s := span{before: root, linked: first == 0, from: first % tpb}
	for s.number = first / tpb; s.number*tpb < start; s.number++ {
		s.to = min(start-s.number*tpb, tpb)
		block := int(t.Block(s.number))
		if err := g.verifyBlock(block, s, pass); err != nil {
			return 0, err
		}
		links, _ := g.at(block)
		s.before, s.linked, s.from = links[s.to-1], true, 0
	}
	return s.before, nil
}

// inside refuses a table that does not cover positions [from,to), or leaves the pool.
func (g *group) inside(t kvcache.BlockTable, from, to int) error {
	tpb := g.layout.BlockTokens
	if from/tpb < t.First || (to+tpb-1)/tpb > t.End() {
		return fmt.Errorf("layer group %d: a table of blocks [%d,%d) does not cover positions [%d,%d)",
			g.pattern.group, t.First, t.End(), from, to)
	}
	for _, b := range t.Blocks {
		if b < 0 || int(b) >= len(g.blocks) {
			return fmt.Errorf("layer group %d: block %d is not in a pool of %d", g.pattern.group, b, len(g.blocks))
		}
	}
	return nil
}

// verifyBlock reads the rows of a span that are not known, and one row of those that are. A
// known block that holds something else may be another sequence's by now, and is read whole.
func (g *group) verifyBlock(block int, s span, pass uint64) error {
	to := g.covers(block, s)
	if to > 0 && !g.sample(block, s.from, to, pass) {
		to = 0
	}
	if to == 0 {
		g.blocks[block] = knownBlock{before: s.before, from: s.from, to: s.from}
		to = s.from
	}
	if to == s.to {
		return nil
	}
	if err := g.readRows(block, s, to); err != nil {
		return err
	}
	g.blocks[block].to = s.to
	return nil
}

// sample reads two rows of a known block: the last one, whose link stands for all before it,
// and another one each pass.
func (g *group) sample(block, from, to int, pass uint64) bool {
	// Neighbouring blocks begin elsewhere, and every row has its turn.
	turn := pass + mix(uint64(block))
	n := uint64(to - from)
	run := int(turn / n % uint64(len(g.keys)))
	return g.holds(block, run, to-1) && g.holds(block, run, from+int(turn%n))
}

func (g *group) holds(block, run, token int) bool {
	links, tokens := g.at(block)
	at := g.run(run) + token*g.size
	return holds(g.block(block)[at:at+g.size], links[token], tokens[token], g.keys[run])
}

// readRows verifies rows [from,s.to) of a block: the first run gives links and tokens, which
// must follow on each other, and all rows must hold what follows from those.
func (g *group) readRows(block int, s span, from int) error {
	mem := g.block(block)
	links, tokens := g.at(block)
	base := s.number * g.layout.BlockTokens
	before, linked := s.before, s.linked
	if from > s.from {
		before, linked = links[from-1], true
	}
	for i := from; i < s.to; i++ {
		l, token := read(mem[i*g.size:], g.keys[0])
		switch {
		case token >= vocab:
			return g.mismatch(block, base, row{token: i}, "not a row of this model")
		case linked && l != before.next(int32(token), base+i):
			return g.mismatch(block, base, row{token: i}, "it does not follow on the position before")
		}
		links[i], tokens[i] = l, int32(token)
		before, linked = l, true
	}
	for run, key := range g.keys {
		at := g.run(run)
		for i := from; i < s.to; i++ {
			if !holds(mem[at+i*g.size:at+(i+1)*g.size], links[i], tokens[i], key) {
				return g.mismatch(block, base, g.rowOf(run, i), "not what belongs to the prompt there")
			}
		}
	}
	return nil
}
