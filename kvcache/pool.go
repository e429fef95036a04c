package kvcache

import "fmt"

// Pool hands out the blocks of one layer group. A block is held by one request or shared by
// several; when nobody holds it, it is free, or idle if it is in the prefix index: then it is
// handed out only when no free block is left, the one that was idle longest first. A pool has
// one owner and no locks.
type Pool struct {
	free  []BlockID
	refs  []int32
	known []*node // the index entry that names a block, or nil
	idle  lru
	// evicted is told of an idle block that is handed out, and freed of a block whose content
	// nobody can want any more.
	evicted func(*node, BlockID)
	freed   func(BlockID)
}

// NewPool makes a pool of n free blocks.
func NewPool(n int) *Pool {
	p := &Pool{
		free: make([]BlockID, n), refs: make([]int32, n), known: make([]*node, n), idle: newLRU(n),
		evicted: func(*node, BlockID) {}, freed: func(BlockID) {},
	}
	for i := range p.free {
		p.free[i] = BlockID(n - 1 - i)
	}
	return p
}

// Total is the number of blocks.
func (p *Pool) Total() int { return len(p.refs) }

// Free is the number of blocks that nobody holds.
func (p *Pool) Free() int { return len(p.free) + p.idle.n }

// Take hands out n blocks, or none if it has fewer.
func (p *Pool) Take(n int) ([]BlockID, bool) {
	if n > p.Free() {
		return nil, false
	}
	out := make([]BlockID, n)
	for i := range out {
		out[i] = p.next()
		p.refs[out[i]] = 1
	}
	return out, true
}

// next is a block that nobody holds.
func (p *Pool) next() BlockID {
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	b := p.idle.oldest()
	p.idle.remove(b)
	p.evicted(p.known[b], b)
	p.known[b] = nil
	p.freed(b)
	return b
}

// share adds a holder to a block that is in the index.
func (p *Pool) share(b BlockID) {
	if p.refs[b] == 0 {
		p.idle.remove(b)
	}
	p.refs[b]++
}

// Give takes blocks back from one holder. A block that was not held is a fault of the caller
// that would end in two requests writing it, so it panics.
func (p *Pool) Give(blocks []BlockID) {
	// The last first: of a prefix, its end is evicted before its beginning.
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		if p.refs[b] == 0 {
			panic(fmt.Sprintf("kvcache: block %d given back twice", b))
		}
		if p.refs[b]--; p.refs[b] > 0 {
			continue
		}
		if p.known[b] != nil {
			p.idle.push(b)
			continue
		}
		p.free = append(p.free, b)
		p.freed(b)
	}
}

// lru is the order in which blocks became idle: a doubly linked list over block numbers, with
// one more entry for its ends.
type lru struct {
	next, prev []BlockID
	n          int
}

func newLRU(n int) lru {
	l := lru{next: make([]BlockID, n+1), prev: make([]BlockID, n+1)}
	end := BlockID(n)
	l.next[end], l.prev[end] = end, end
	return l
}

func (l *lru) end() BlockID { return BlockID(len(l.next) - 1) }

// push adds a block as the youngest.
func (l *lru) push(b BlockID) {
	end := l.end()
	last := l.prev[end]
	l.next[last], l.prev[b], l.next[b], l.prev[end] = b, last, end, b
	l.n++
}

func (l *lru) remove(b BlockID) {
	l.next[l.prev[b]], l.prev[l.next[b]] = l.next[b], l.prev[b]
	l.n--
}

func (l *lru) oldest() BlockID { return l.next[l.end()] }
