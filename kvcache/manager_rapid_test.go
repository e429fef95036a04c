package kvcache

import (
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// bench is a manager with memory of its own: each cell of a block holds a number that stands
// for the whole prefix up to its token, so a wrong, stale or overwritten cell shows.
type bench struct {
	layout      Layout
	grow, reuse bool
	m           Manager
	cells       [][][]uint64 // by group, block and token of the block
	live        []*request
}

type request struct {
	h      *Holding
	tokens []int32 // prompt and what will be decoded
	demand Demand
	done   int // tokens whose KV is there
}

const (
	poison     = 1<<64 - 1
	benchChunk = 5
)

// sums are what the cells of tokens must hold.
func sums(tokens []int32) []uint64 {
	h := fnv.New64a()
	out := make([]uint64, len(tokens))
	for i, t := range tokens {
		h.Write([]byte{byte(t), 7})
		out[i] = h.Sum64()
	}
	return out
}

// newBench draws a layout and a manager whose pools have least to most blocks.
func newBench(t *rapid.T, least, most int) *bench {
	b := drawBench(t)
	b.pools(t, rapid.IntRange(least, most).Draw(t, "full"), rapid.IntRange(least, most).Draw(t, "windowed"))
	return b
}

// drawBench draws all but the pools.
func drawBench(t *rapid.T) *bench {
	return &bench{
		layout: Layout{
			BlockTokens: rapid.IntRange(1, 4).Draw(t, "tpb"), KVHeads: 1, HeadDim: 1, DType: F16,
			Groups: []LayerGroup{{Layers: []int{0}}, {Window: rapid.IntRange(1, 9).Draw(t, "window"), Layers: []int{1}}},
		},
		grow: rapid.Bool().Draw(t, "grow"), reuse: rapid.Bool().Draw(t, "reuse"),
	}
}

// pools makes the manager and its memory.
func (b *bench) pools(t *rapid.T, sizes ...int) {
	b.cells = nil
	for _, n := range sizes {
		group := make([][]uint64, n)
		for i := range group {
			group[i] = make([]uint64, b.layout.BlockTokens)
		}
		b.cells = append(b.cells, group)
	}
	o := Options{Reuse: b.reuse, Chunk: benchChunk, Freed: func(g int, blk BlockID) {
		for i := range b.cells[g][blk] {
			b.cells[g][blk][i] = poison
		}
	}}
	var err error
	if b.grow {
		b.m, err = NewGrow(b.layout, sizes, o)
	} else {
		b.m, err = NewReserve(b.layout, sizes, o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cell is where a request's token lies in a group, or nil if it is not resident.
func (b *bench) cell(r *request, g, token int) *uint64 {
	tpb := b.layout.BlockTokens
	table := r.h.Tables[g]
	if i := token / tpb; i >= table.First && i < table.End() {
		return &b.cells[g][table.Block(i)][token%tpb]
	}
	return nil
}

// visible checks that all that the token at position can see is right.
func (b *bench) visible(t *rapid.T, r *request, position int) {
	want := sums(r.tokens)
	for g, group := range b.layout.Groups {
		from := 0
		if group.Window > 0 {
			from = max(0, position-group.Window+1)
		}
		for p := from; p < position; p++ {
			if c := b.cell(r, g, p); c == nil || *c != want[p] {
				t.Fatalf("group %d: token %d cannot see token %d of %v: %v", g, position, p, r.tokens, c)
			}
		}
	}
}

// write stores a token's KV; nobody else may hold the block.
func (b *bench) write(t *rapid.T, r *request, g, token int) {
	c := b.cell(r, g, token)
	if c == nil {
		t.Fatalf("group %d has no block for token %d", g, token)
	}
	for _, o := range b.live {
		if o == r {
			continue
		}
		for p := range o.done {
			if b.cell(o, g, p) == c {
				t.Fatalf("group %d: token %d is written into a block that another request reads", g, token)
			}
		}
	}
	*c = sums(r.tokens)[token]
}

func (b *bench) copies(r *request) {
	for _, c := range r.h.Copies {
		copy(b.cells[c.Group][c.To], b.cells[c.Group][c.From])
	}
	b.m.Copied(r.h)
}

func drawRequest(t *rapid.T) *request {
	r := &request{tokens: rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 16).Draw(t, "tokens")}
	r.demand = Demand{
		Prompt: rapid.IntRange(1, len(r.tokens)).Draw(t, "prompt"), Tokens: len(r.tokens),
	}
	if rapid.Bool().Draw(t, "received") {
		r.demand.Arrives = rapid.SampledFrom([]int{
			r.demand.Prompt, max(0, r.demand.Prompt-1), rapid.IntRange(0, r.demand.Prompt).Draw(t, "arrives"),
		}).Draw(t, "arriving")
	}
	return r
}

func (b *bench) admit(t *rapid.T) {
	r := drawRequest(t)
	prompt := r.demand.Prompt
	if b.m.Fits(r.demand) != nil {
		return // an engine refuses it
	}
	h, ok := b.m.Admit(r.demand, r.tokens)
	if !ok {
		if len(b.live) == 0 {
			t.Fatalf("%+v fits and was not admitted to empty pools", r.demand)
		}
		return
	}
	if most := max(prompt-1, r.demand.Arrives); h.Cached > most {
		t.Fatalf("%d of a prompt of %d are cached", h.Cached, prompt)
	}
	r.h, r.done = h, h.Cached
	b.copies(r)
	b.receive(t, r, r.demand.Arrives)
	b.visible(t, r, r.done)
	b.live = append(b.live, r)
}

// receive writes what a sender would: whole blocks, from what is held to the end of what
// arrives.
func (b *bench) receive(t *rapid.T, r *request, arrives int) {
	if arrives <= r.h.Cached {
		return
	}
	for g, group := range b.layout.Groups {
		from := max(StaleEnd(arrives, group.Window, b.layout.BlockTokens)*b.layout.BlockTokens, r.h.Cached)
		for p := from; p < arrives; p++ {
			b.write(t, r, g, p)
		}
	}
	r.done = arrives
	b.m.Commit(r.h, r.tokens[:arrives])
}

// compute runs a chunk of some live request.
func (b *bench) compute(t *rapid.T) {
	r := b.pick(t)
	n := min(rapid.IntRange(1, 5).Draw(t, "chunk"), len(r.tokens)-r.done)
	if n == 0 || !b.m.Extend(r.h, r.done, r.done+n) {
		return
	}
	for range n {
		b.visible(t, r, r.done)
		for g := range b.layout.Groups {
			b.write(t, r, g, r.done)
		}
		r.done++
	}
	if rapid.Bool().Draw(t, "commit") {
		b.m.Commit(r.h, r.tokens[:r.done])
	}
}

func (b *bench) pick(t *rapid.T) *request {
	if len(b.live) == 0 {
		t.Skip("nobody is there")
	}
	return rapid.SampledFrom(b.live).Draw(t, "request")
}

func (b *bench) give(t *rapid.T) {
	r := b.pick(t)
	if rapid.Bool().Draw(t, "commit") {
		b.m.Commit(r.h, r.tokens[:r.done])
	}
	b.m.Give(r.h)
	for i := range b.live {
		if b.live[i] == r {
			b.live = append(b.live[:i], b.live[i+1:]...)
			break
		}
	}
}

// forgets takes every block, and checks that nothing of the prefix index is left then.
func (b *bench) forgets(t *rapid.T) {
	var s *store
	switch m := b.m.(type) {
	case *Grow:
		s = &m.store
	case *Reserve:
		s = &m.store
	}
	for _, p := range s.pools {
		p.Take(p.Total())
	}
	if x := s.index; x != nil && (len(x.nodes) != 1 || len(x.nodes[x.root].children) != 0) {
		t.Fatalf("%d nodes are left, with no block", len(x.nodes)-1)
	}
}

// TestManagersKeepContent: with either manager, with and without reuse, whatever a request can
// see is what was computed for exactly its prefix, and nothing that another one reads is
// written. In the end every block is free again.
//
// req: PIPE-07
// req: PIPE-09
// req: PIPE-36
func TestManagersKeepContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t, 4, 24)
		t.Repeat(map[string]func(*rapid.T){
			"admit":   b.admit,
			"compute": b.compute,
			"give":    b.give,
			"":        func(*rapid.T) {},
		})
		for _, r := range b.live {
			b.m.Give(r.h)
		}
		if total, free := b.m.Count(); total != free {
			t.Fatalf("%d of %d blocks are free in the end", free, total)
		}
		b.forgets(t)
	})
}

// TestReuse shows hits by example: whole blocks, a part of one, and windows.
//
// req: PIPE-09
func TestReuse(t *testing.T) {
	layout := Layout{BlockTokens: 4, KVHeads: 1, HeadDim: 1, DType: F16, Groups: []LayerGroup{{Layers: []int{0}}, {Window: 6, Layers: []int{1}}}}
	tokens := func(s string) []int32 {
		var out []int32
		for _, c := range s {
			out = append(out, int32(c))
		}
		return out
	}
	for _, c := range []struct {
		name, prompt string
		arrives      int
		cached       int
		copies       int
	}{
		{"nothing alike", "zzzzzzzz", 0, 0, 0},
		{"less than a block alike, which is copied in both groups", "abcz", 0, 3, 2},
		{"two blocks", "abcdefghzz", 0, 8, 0},
		{"the whole prompt but for one token to compute", "abcdefghijkl", 0, 11, 2},
		{"one that arrives needs none to compute", "abcdefghijkl", 12, 12, 0},
		{"all but one token arrives, and a part of a block is it", "abcdefghijkl", 11, 11, 2},
		{"one that arrives and ends in a block that is here", "abcdefghij", 10, 10, 2},
		{"one that arrives cannot use a part of a block", "abcdefghijz", 11, 8, 0},
		{"what arrives ends inside a block that is here", "abcdefghijz", 10, 10, 2},
	} {
		m, _ := NewReserve(layout, []int{16, 16}, Options{Reuse: true})
		first := tokens("abcdefghijkl")
		h, _ := m.Admit(Demand{Prompt: 12, Tokens: 12}, first)
		m.Commit(h, first)
		m.Give(h)
		d := Demand{Prompt: len(c.prompt), Tokens: len(c.prompt) + 3, Arrives: c.arrives}
		h, ok := m.Admit(d, tokens(c.prompt))
		if !ok || h.Cached != c.cached || len(h.Copies) != c.copies {
			t.Errorf("%s: admitted %v, %d cached, copies %v: want %d and %d", c.name, ok, h.Cached, h.Copies, c.cached, c.copies)
		}
	}
}

// TestReuseNeedsTheWindow: a prefix whose last window was evicted is no hit, however whole the
// full group is.
//
// req: PIPE-09
func TestReuseNeedsTheWindow(t *testing.T) {
	layout := Layout{BlockTokens: 2, KVHeads: 1, HeadDim: 1, DType: F16, Groups: []LayerGroup{{Layers: []int{0}}, {Window: 4, Layers: []int{1}}}}
	m, _ := NewGrow(layout, []int{32, 32}, Options{Reuse: true, Chunk: 2})
	tokens := prompt(16)
	h, _ := m.Admit(Demand{Prompt: 16, Tokens: 16}, tokens)
	for at := 0; at < 16; at += 2 {
		m.Extend(h, at, at+2)
	}
	m.Commit(h, tokens) // of the window group only the last blocks are left
	m.Give(h)
	if h, _ := m.Admit(Demand{Prompt: 10, Tokens: 10}, tokens[:10]); h.Cached != 0 {
		t.Errorf("%d tokens are cached of a prefix whose window is gone", h.Cached)
	}
	if h, _ := m.Admit(Demand{Prompt: 18, Tokens: 18}, append(prompt(16), 98, 99)); h.Cached != 16 {
		t.Errorf("%d tokens are cached of a prefix whose last window is there, want 16", h.Cached)
	}
}

// TestEvictionOrder: the block that was idle longest goes first, and of a prefix its end.
func TestEvictionOrder(t *testing.T) {
	layout := Layout{BlockTokens: 1, KVHeads: 1, HeadDim: 1, DType: F16, Groups: []LayerGroup{{Layers: []int{0}}}}
	m, _ := NewReserve(layout, []int{4}, Options{Reuse: true})
	h, _ := m.Admit(Demand{Prompt: 3, Tokens: 3}, []int32{1, 2, 3})
	m.Commit(h, []int32{1, 2, 3})
	m.Give(h)
	other, _ := m.Admit(Demand{Prompt: 2, Tokens: 2}, []int32{8, 9}) // one free block, and one that was idle
	m.Give(other)
	if h, _ := m.Admit(Demand{Prompt: 4, Tokens: 4}, []int32{1, 2, 3, 4}); h.Cached != 2 {
		t.Errorf("%d tokens are cached, want the first 2 of 3", h.Cached)
	}
}
