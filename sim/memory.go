package sim

import (
	"slices"

	"kvferry/engine"
	"kvferry/kvcache"
)

// memory is the pools of one process on all its ranks, and who holds each block of them. A
// block has the same number on every rank.
type memory struct {
	p      *proc
	layout kvcache.Layout
	shards []kvcache.Shard
	groups []groupMemory
	audits int
}

type groupMemory struct {
	recurrent bool
	ranks     [][]byte // the pool of each rank
	sizes     []int    // bytes of a block on each rank
	slots     []slot
}

// slot is what is known of one physical block.
type slot struct {
	// turn counts how often the block's content was given up, so that an old user of the block
	// is known for one.
	turn    int
	holders []holder
}

// holder is a request that has the block in its tables.
type holder struct {
	request int
	logical int // its number in the request; -1 if it is held to be copied
	uses    int // passes and copies of the request that touch it now
	reads   int // reads into it that have not ended
	seen    int // the last audit that found it
}

func newMemory(p *proc, l kvcache.Layout, shards []kvcache.Shard, sizes []int) *memory {
	m := &memory{p: p, layout: l, shards: shards}
	for g, n := range sizes {
		gm := groupMemory{recurrent: l.Groups[g].Recurrent(), slots: make([]slot, n)}
		for _, s := range shards {
			size := s.BlockBytes(g)
			gm.sizes = append(gm.sizes, size)
			gm.ranks = append(gm.ranks, make([]byte, n*size))
			poison(gm.ranks[len(gm.ranks)-1])
		}
		m.groups = append(m.groups, gm)
	}
	return m
}

// poison is what no cell ever holds.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

func (m *memory) block(rank, g int, b kvcache.BlockID) []byte {
	gm := &m.groups[g]
	return gm.ranks[rank][int(b)*gm.sizes[rank] : (int(b)+1)*gm.sizes[rank]]
}

func (m *memory) slot(g int, b kvcache.BlockID) *slot { return &m.groups[g].slots[b] }

// holder is a request's hold on the block, or nil.
func (s *slot) holder(request int) *holder {
	for i := range s.holders {
		if s.holders[i].request == request {
			return &s.holders[i]
		}
	}
	return nil
}

// sole says whether the request, and nobody else, holds the block.
func (s *slot) sole(request int) bool { return len(s.holders) == 1 && s.holders[0].request == request }

// freed is told by the pools that nobody can want a block's content any more: it is
// overwritten at once.
func (m *memory) freed(g int, b kvcache.BlockID) {
	s := m.slot(g, b)
	s.turn++
	for _, h := range s.holders {
		if h.uses > 0 {
			m.p.w.fail("no touch after release", "%s: block %d of group %d of %s is freed while it is in use", m.p.node.name, b, g, m.p.w.id(h.request))
		}
	}
	for rank := range m.groups[g].ranks {
		poison(m.block(rank, g, b))
	}
}

// audit compares who holds which block with what was before the step. Only equal prefixes
// share a block, nobody touches it for a request that has let it go, and the engine's own count
// is right.
func (p *proc) audit(held []engine.Held) {
	m := p.mem
	m.audits++
	for _, h := range held {
		r := p.w.indexOf(h.Request)
		for g, t := range h.Tables {
			for i, b := range t.Blocks {
				m.hold(g, b, r, t.First+i)
			}
		}
		for _, c := range h.Copies {
			m.hold(c.Group, c.From, r, -1)
		}
	}
	for _, t := range p.turns {
		for g, table := range t.tables {
			for i, b := range table.Blocks {
				m.hold(g, b, t.request, table.First+i)
			}
		}
	}
	free := 0
	for g := range m.groups {
		for b := range m.groups[g].slots {
			s := &m.groups[g].slots[b]
			m.letGo(g, kvcache.BlockID(b), s)
			if len(s.holders) == 0 {
				free++
			} else if len(s.holders) > 1 {
				m.checkShared(g, kvcache.BlockID(b), s)
			}
		}
	}
	if c := p.eng.Counts(); c.Free != free {
		p.w.fail("no leak", "%s: the engine counts %d free blocks and its requests leave %d", p.node.name, c.Free, free)
	}
}

// hold notes that a request has a block.
func (m *memory) hold(g int, b kvcache.BlockID, request, logical int) {
	s := m.slot(g, b)
	h := s.holder(request)
	if h == nil {
		s.holders = append(s.holders, holder{request: request})
		h = &s.holders[len(s.holders)-1]
	}
	if h.seen == m.audits {
		m.p.w.fail("one owner", "%s: %s holds block %d of group %d twice", m.p.node.name, m.p.w.id(request), b, g)
	}
	h.logical, h.seen = logical, m.audits
}

// letGo forgets the holders that have the block no longer.
func (m *memory) letGo(g int, b kvcache.BlockID, s *slot) {
	for i := 0; i < len(s.holders); i++ {
		h := s.holders[i]
		if h.seen == m.audits {
			continue
		}
		m.p.checkReleased(g, b, h)
		s.holders = slices.Delete(s.holders, i, i+1)
		i--
	}
}

func (p *proc) checkReleased(g int, b kvcache.BlockID, h holder) {
	if h.uses > 0 || h.reads > 0 {
		p.w.fail("no touch after release", "%s: %s releases block %d of group %d while it is in use", p.node.name, p.w.id(h.request), b, g)
	}
	for _, gr := range p.grants {
		if p.w.plan.Cluster.Fencing && p.owners[gr.epoch] == h.request && gr.covers(g, b) {
			p.w.fail("no touch after release", "%s: %s releases block %d of group %d while epoch %d may still write it",
				p.node.name, p.w.id(h.request), b, g, gr.epoch)
		}
	}
}

// checkShared looks whether all holders of a block have the same tokens up to its end.
func (m *memory) checkShared(g int, b kvcache.BlockID, s *slot) {
	first := s.holders[0]
	for _, h := range s.holders[1:] {
		one, other := m.p.w.requests[first.request].seq, m.p.w.requests[h.request].seq
		end := (first.logical + 1) * m.layout.BlockTokens
		switch {
		case first.logical < 0 || h.logical < 0:
			// A part of it is to be copied; what is read of the copy is checked.
		case m.groups[g].recurrent, h.logical != first.logical, end > len(one.chain), end > len(other.chain), one.chain[end-1] != other.chain[end-1]:
			m.p.w.fail("one owner", "%s: block %d of group %d is held by %s and by %s, whose tokens differ",
				m.p.node.name, b, g, m.p.w.id(first.request), m.p.w.id(h.request))
		}
	}
}
