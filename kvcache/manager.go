package kvcache

import (
	"fmt"
	"slices"
)

// Manager decides when a request gets its blocks. All managers hold blocks in the same pools
// and find prefixes in the same index; they differ in what they take when.
type Manager interface {
	// Fits says whether the demand could ever be met, with nobody else in the pools.
	Fits(d Demand) error
	// Admit gives a request its first blocks, shared as far as the index has its prompt's, or
	// nothing.
	Admit(d Demand, tokens []int32) (*Holding, bool)
	// Extend sees to it that the tokens [start,end) can be computed: it gives up the blocks
	// that no token from start on can see, and takes those that end needs. If the pools are
	// short it is false, and what the request had stays.
	Extend(h *Holding, start, end int) bool
	// Commit enters the whole blocks of a request in the prefix index. Their KV must be whole
	// and right (PIPE-36); tokens are those whose KV is stored.
	Commit(h *Holding, tokens []int32)
	// Copied says that the holding's copies are made.
	Copied(h *Holding)
	// Trim takes back the blocks behind the first tokens of a request.
	Trim(h *Holding, tokens int)
	// Give takes back what the request holds.
	Give(h *Holding)
	// Count is the number of blocks, and of blocks that nobody holds, over all groups.
	Count() (total, free int)
}

// Demand is what a request needs of the pools, in tokens.
type Demand struct {
	// Prompt is the prompt's length.
	Prompt int
	// Tokens is the most tokens whose KV the request will ever store, the prompt included.
	Tokens int
	// Arrives is how many of the prompt's tokens have their KV arrive from elsewhere; those
	// behind are computed here. A window group needs none of the blocks that are stale by then.
	Arrives int
}

// Holding is what a request holds.
type Holding struct {
	// Tables has one block table a group.
	Tables []BlockTable
	// Cached is the number of prompt tokens whose KV is there already, in shared blocks or in
	// what Copies bring.
	Cached int
	// Copies are to be made before the first token is computed: a hit that ends inside a
	// block gets that block's content in a block of its own.
	Copies []BlockCopy
}

// BlockCopy copies a block within a group's pool.
type BlockCopy struct {
	Group    int
	From, To BlockID
}

// Options choose what all managers have in common.
type Options struct {
	// Reuse keeps the prefix index.
	Reuse bool
	// Salt tells prefixes of one deployment from those of another.
	Salt string
	// Freed, if set, is told of each block whose content nobody can want any more. Tests
	// overwrite it, so that a stale read shows.
	Freed func(group int, b BlockID)
	// Chunk is the most tokens that one pass computes of a request; 0 is all of them. Grow
	// needs it to know what a request holds at its peak.
	Chunk int
}

// store is the pools and the index that every manager works on.
type store struct {
	layout Layout
	pools  []*Pool
	index  *index // nil without reuse
}

func newStore(layout Layout, blocks []int, o Options) (store, error) {
	s := store{layout: layout}
	if err := layout.Validate(); err != nil {
		return s, err
	}
	if len(blocks) != len(layout.Groups) {
		return s, fmt.Errorf("kvcache: %d pool sizes for %d layer groups", len(blocks), len(layout.Groups))
	}
	// A recurrent state stands for a whole prefix and is not kept by block, so a hybrid
	// model's prefixes cannot be found.
	if o.Reuse && !slices.ContainsFunc(layout.Groups, LayerGroup.Recurrent) {
		s.index = newIndex(layout.BlockTokens, len(layout.Groups), o.Salt)
	}
	for g, n := range blocks {
		if n < 1 {
			return s, fmt.Errorf("kvcache: pool of layer group %d has %d blocks: want at least 1", g, n)
		}
		p := NewPool(n)
		p.evicted = func(n *node, _ BlockID) { s.index.evicted(n, g) }
		if o.Freed != nil {
			p.freed = func(b BlockID) { o.Freed(g, b) }
		}
		s.pools = append(s.pools, p)
	}
	return s, nil
}

// Fits is of Manager.
func (s *store) Fits(d Demand) error {
	for g, p := range s.pools {
		if n := s.span(g, d, 0).Len(); n > p.Total() {
			return shortPool(d, n, g, p)
		}
	}
	return nil
}

func shortPool(d Demand, need, group int, p *Pool) error {
	return fmt.Errorf("%d tokens need %d blocks of layer group %d, which has %d", d.Tokens, need, group, p.Total())
}

// span is the logical blocks of group g that a request needs from the start, if cached tokens
// of its prompt are there already, to its end.
func (s *store) span(g int, d Demand, cached int) Span {
	if s.layout.Groups[g].Recurrent() {
		return Span{0, 1}
	}
	return Span{StaleEnd(max(cached, d.Arrives), s.layout.Groups[g].Window, s.layout.BlockTokens), s.layout.TotalBlocks(d.Tokens)}
}

// find is what the index has of a request's prompt. What computes needs one token to compute;
// where the whole prompt arrives none is needed.
func (s *store) find(d Demand, tokens []int32) hit {
	if s.index == nil {
		return hit{}
	}
	limit := max(d.Arrives, d.Prompt-1)
	h := s.index.find(s.layout, tokens[:d.Prompt], limit)
	if h.length >= d.Arrives {
		return h
	}
	// What arrives fills whole blocks only, so a part of one is of no use.
	return s.index.whole(s.layout, s.index.path(tokens[:limit]))
}

// admit takes blocks up to end tokens, sharing a hit's. It is all or nothing. A hit that ends
// inside a block needs one more for a while, so a request that fills the pools goes without.
func (s *store) admit(d Demand, found hit, end func(cached int) int) (*Holding, bool) {
	h, ok := s.admitWith(d, found, end)
	if !ok && found.length > 0 {
		h, ok = s.admitWith(d, hit{}, end)
	}
	return h, ok
}

func (s *store) admitWith(d Demand, found hit, end func(cached int) int) (*Holding, bool) {
	h := &Holding{Cached: found.length}
	whole := found.length / s.layout.BlockTokens
	tail := found.length%s.layout.BlockTokens != 0
	for g := range s.pools {
		span := s.span(g, d, found.length)
		t := BlockTable{First: span.Start}
		for i := span.Start; i < whole; i++ {
			b := found.path[i].blocks[g]
			s.pools[g].share(b)
			t.Blocks = append(t.Blocks, b)
		}
		h.Tables = append(h.Tables, t)
		if tail {
			// Held until the copy is made.
			from := found.path[whole].blocks[g]
			s.pools[g].share(from)
			h.Copies = append(h.Copies, BlockCopy{Group: g, From: from, To: none})
		}
	}
	if !s.grow(h, end(found.length)) {
		s.Give(h)
		return nil, false
	}
	for i := range h.Copies {
		c := &h.Copies[i]
		c.To = h.Tables[c.Group].Block(whole)
	}
	return h, true
}

// grow takes the blocks that end tokens need, in every group or in none.
func (s *store) grow(h *Holding, end int) bool {
	for g, p := range s.pools {
		if s.lacks(h, g, end) > p.Free() {
			return false
		}
	}
	for g, p := range s.pools {
		if n := s.lacks(h, g, end); n > 0 {
			more, _ := p.Take(n)
			h.Tables[g].Blocks = append(h.Tables[g].Blocks, more...)
		}
	}
	return true
}

// lacks is how many blocks of a group a request needs beside those it has, for end tokens.
func (s *store) lacks(h *Holding, g, end int) int {
	if s.layout.Groups[g].Recurrent() {
		return 1 - len(h.Tables[g].Blocks)
	}
	return s.layout.TotalBlocks(end) - h.Tables[g].End()
}

// Commit is of Manager.
func (s *store) Commit(h *Holding, tokens []int32) {
	if s.index != nil {
		s.index.add(s.pools, h.Tables, tokens)
	}
}

// Copied is of Manager.
func (s *store) Copied(h *Holding) {
	for _, c := range h.Copies {
		s.pools[c.Group].Give([]BlockID{c.From})
	}
	h.Copies = nil
}

// Trim is of Manager.
func (s *store) Trim(h *Holding, tokens int) {
	for g := range h.Tables {
		t := &h.Tables[g]
		if s.layout.Groups[g].Recurrent() {
			continue
		}
		if n := max(0, s.layout.TotalBlocks(tokens)-t.First); n < len(t.Blocks) {
			s.pools[g].Give(t.Blocks[n:])
			t.Blocks = t.Blocks[:n]
		}
	}
}

// Give is of Manager.
func (s *store) Give(h *Holding) {
	s.Copied(h)
	for g, t := range h.Tables {
		s.pools[g].Give(t.Blocks)
	}
	h.Tables = nil
}

// Count is of Manager.
func (s *store) Count() (total, free int) {
	for _, p := range s.pools {
		total += p.Total()
		free += p.Free()
	}
	return total, free
}
