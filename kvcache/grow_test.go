package kvcache

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// full is a layout of one full group.
func full(tpb int) Layout {
	return Layout{BlockTokens: tpb, KVHeads: 1, HeadDim: 1, DType: F16, Groups: []LayerGroup{{Layers: []int{0}}}}
}

// TestGrowGivesUpWhatLeavesTheWindow shows what a request holds as it grows.
//
// req: PIPE-07
func TestGrowGivesUpWhatLeavesTheWindow(t *testing.T) {
	m, _ := NewGrow(twoGroups(4), []int{20, 20}, Options{Chunk: 6}) // the second group's window is 9
	h, _ := m.Admit(Demand{Prompt: 40, Tokens: 40}, prompt(40))
	for _, c := range []struct{ end, full, first, blocks int }{
		{6, 2, 0, 2},
		{12, 3, 0, 3},
		{18, 5, 1, 4}, // the token at 12 sees positions from 4 on
		{24, 6, 2, 4},
		{30, 8, 4, 4}, // at 24, from 16 on
	} {
		if !m.Extend(h, c.end-6, c.end) {
			t.Fatalf("no room for %d tokens", c.end)
		}
		f, w := h.Tables[0], h.Tables[1]
		if f.First != 0 || len(f.Blocks) != c.full || w.First != c.first || len(w.Blocks) != c.blocks {
			t.Errorf("at %d tokens: [%d,%d) and [%d,%d), want [0,%d) and [%d,%d)",
				c.end, f.First, f.End(), w.First, w.End(), c.full, c.first, c.first+c.blocks)
		}
		if _, free := m.Count(); free != 40-c.full-c.blocks {
			t.Errorf("at %d tokens %d blocks are free", c.end, free)
		}
	}
}

// TestGrowHitThatFillsThePool: the block that a hit copies from is held until the first pass,
// so a request that needs the whole pool goes without it, or its first pass would wait for ever.
//
// req: PIPE-07
// req: PIPE-09
func TestGrowHitThatFillsThePool(t *testing.T) {
	for blocks, cached := range map[int]int{4: 4, 5: 6} {
		m, _ := NewGrow(full(4), []int{blocks}, Options{Reuse: true})
		first := prompt(8)
		h, _ := m.Admit(Demand{Prompt: 8, Tokens: 8}, first)
		m.Extend(h, 0, 8)
		m.Commit(h, first)
		m.Give(h)
		tokens := append(prompt(6), 90, 91, 92, 93, 94, 95, 96, 97, 98) // 15, 4 blocks
		h, ok := m.Admit(Demand{Prompt: 15, Tokens: 15}, tokens)
		if !ok || h.Cached != cached || !m.Extend(h, h.Cached, 15) {
			t.Errorf("a pool of %d: admitted %v, %+v: want %d tokens cached, and room for all", blocks, ok, h, cached)
		}
	}
}

// TestGrowFitsWhatIsLost: a prompt that arrived needs its last window only; lost to another
// request it is computed again, and a pool that is too small for that does not fit it.
//
// req: PIPE-07
func TestGrowFitsWhatIsLost(t *testing.T) {
	l := full(4)
	l.Groups[0].Window = 2
	d := Demand{Prompt: 20, Tokens: 20, Arrives: 20}
	for _, c := range []struct {
		chunk, blocks int
		fits          bool
	}{{0, 4, false}, {0, 5, true}, {9, 3, false}, {9, 4, true}} {
		m, _ := NewGrow(l, []int{c.blocks}, Options{Chunk: c.chunk})
		if err := m.Fits(d); (err == nil) != c.fits {
			t.Errorf("chunks of %d, %d blocks: %v", c.chunk, c.blocks, err)
		}
	}
	m, _ := NewReserve(l, []int{1}, Options{}) // which takes nothing from anybody
	if err := m.Fits(d); err != nil {
		t.Errorf("reserve: %v", err)
	}
}

// TestAloneIsServed: what fits is admitted to pools that nobody holds, whatever the prefix index
// has of it, and then always gets its blocks, in pools that are hardly big enough; what arrived
// and is given up is computed again.
//
// req: PIPE-07
// req: PIPE-09
func TestAloneIsServed(t *testing.T) {
	alone := func(t *rapid.T) {
		b, r := drawBench(t), drawRequest(t)
		sizes := []int{1, 1}
		for b.pools(t, sizes...); b.m.Fits(r.demand) != nil; b.pools(t, sizes...) {
			g := 0
			if strings.Contains(b.m.Fits(r.demand).Error(), "layer group 1") {
				g = 1
			}
			sizes[g]++
		}
		b.pools(t, sizes[0]+rapid.IntRange(0, 1).Draw(t, "more"), sizes[1]+rapid.IntRange(0, 1).Draw(t, "more"))
		for range rapid.IntRange(0, 2).Draw(t, "earlier") {
			e := drawRequest(t)
			copy(e.tokens, r.tokens[:rapid.IntRange(0, len(r.tokens)).Draw(t, "alike")])
			if b.m.Fits(e.demand) == nil {
				b.serve(t, e, e.demand)
			}
		}
		b.serve(t, r, r.demand)
		if b.grow && r.demand.Arrives > 0 {
			filled := rapid.IntRange(r.demand.Prompt, len(r.tokens)).Draw(t, "filled")
			b.serve(t, r, Demand{Prompt: filled, Tokens: len(r.tokens)})
		}
	}
	for range 10 {
		rapid.Check(t, alone)
	}
}

// serve admits a request and computes all of it, in chunks as the bench's manager knows them.
func (b *bench) serve(t *rapid.T, r *request, d Demand) {
	h, ok := b.m.Admit(d, r.tokens)
	if !ok {
		t.Fatalf("%+v fits, and is not admitted", d)
	}
	r.h, r.done = h, h.Cached
	b.copies(r)
	b.receive(t, r, d.Arrives)
	for r.done < len(r.tokens) {
		n := 1
		if r.done < d.Prompt {
			n = min(benchChunk, d.Prompt-r.done)
		}
		if !b.m.Extend(h, r.done, r.done+n) {
			t.Fatalf("%+v is alone, and has no room for [%d,%d)", d, r.done, r.done+n)
		}
		b.copies(r)
		for range n {
			b.visible(t, r, r.done)
			for g := range b.layout.Groups {
				b.write(t, r, g, r.done)
			}
			r.done++
		}
	}
	b.m.Commit(h, r.tokens)
	b.m.Give(h)
}
