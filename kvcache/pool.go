package kvcache

import "fmt"

// Pool hands out the blocks of one layer group on one rank. It has one owner and no locks.
type Pool struct {
	free []BlockID
	held []bool
}

// NewPool makes a pool of n free blocks.
func NewPool(n int) *Pool {
	p := &Pool{free: make([]BlockID, n), held: make([]bool, n)}
	for i := range p.free {
		p.free[i] = BlockID(n - 1 - i)
	}
	return p
}

// Total is the number of blocks.
func (p *Pool) Total() int { return len(p.held) }

// Free is the number of blocks that nobody holds.
func (p *Pool) Free() int { return len(p.free) }

// Take hands out n blocks, or none if it has fewer.
func (p *Pool) Take(n int) ([]BlockID, bool) {
	if n > len(p.free) {
		return nil, false
	}
	cut := len(p.free) - n
	out := append([]BlockID(nil), p.free[cut:]...)
	p.free = p.free[:cut]
	for _, b := range out {
		p.held[b] = true
	}
	return out, true
}

// Give takes blocks back. A block that was not held is a fault of the caller that would end
// in two requests sharing it, so it panics.
func (p *Pool) Give(blocks []BlockID) {
	for _, b := range blocks {
		if !p.held[b] {
			panic(fmt.Sprintf("kvcache: block %d given back twice", b))
		}
		p.held[b] = false
		p.free = append(p.free, b)
	}
}
