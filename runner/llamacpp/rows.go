package llamacpp

import (
	"fmt"

	"kvferry/kvcache"
)

// rows moves KV between the blocks of the pools and llama.cpp's states. Each layer group is a
// section of a state.
type rows struct {
	layout kvcache.Layout
	shape  shape
	pools  [][]byte // one a group
	from   []int    // scratch
}

// each visits the contiguous pieces of group g of the positions [from,to): size bytes of one head of
// one token, at block in the pool, and at row bytes behind the beginning of the token's row in a
// state. A layer is counted within the group.
func (r *rows) each(g int, t kvcache.BlockTable, from, to int, visit func(layer, kv, pos, block, row, size int)) {
	size := r.layout.RowBytes()
	for pos := from; pos < to; pos++ {
		base := int(t.Block(pos/r.layout.BlockTokens))*r.layout.BlockBytes(g) + pos%r.layout.BlockTokens*size
		for layer := range r.layout.Groups[g].Layers {
			for kv := range 2 {
				for head := range r.layout.KVHeads {
					visit(layer, kv, pos, base+r.layout.HeadOffset(layer, kv, head), head*size, size)
				}
			}
		}
	}
}

// visible is the first position that a token at position n sees in a group.
func visible(g kvcache.LayerGroup, n int) int {
	if g.Window == 0 {
		return 0
	}
	return max(0, n+1-g.Window)
}

// assemble makes the state of the first n positions out of the blocks: of a group with a window
// those that the next token sees. It uses buf if it is large enough.
func (r *rows) assemble(buf []byte, tables []kvcache.BlockTable, n int) []byte {
	r.from = r.from[:0]
	for _, group := range r.layout.Groups {
		r.from = append(r.from, visible(group, n))
	}
	if size := r.shape.size(r.from, n); cap(buf) < size {
		buf = make([]byte, size)
	} else {
		buf = buf[:size]
	}
	for g, p := range r.shape.frame(buf, r.from, n) {
		pool, first := r.pools[g], r.from[g]
		r.each(g, tables[g], first, n, func(layer, kv, pos, block, row, size int) {
			copy(p.at(layer, kv, pos-first)[row:row+size], pool[block:block+size])
		})
	}
	return buf
}

// scatter writes a state of exactly the positions [from,to), in whatever order, into the blocks.
// On an error nothing was written.
func (r *rows) scatter(state []byte, tables []kvcache.BlockTable, from, to int) error {
	parts, err := r.shape.parts(state)
	if err != nil {
		return err
	}
	cells := make([][]int, len(parts))
	for g, p := range parts {
		if cells[g], err = p.order(from, to); err != nil {
			return err
		}
	}
	for g, p := range parts {
		pool := r.pools[g]
		r.each(g, tables[g], from, to, func(layer, kv, pos, block, row, size int) {
			copy(pool[block:block+size], p.at(layer, kv, cells[g][pos-from])[row:])
		})
	}
	return nil
}

// order is the cell of each of the positions [from,to), which must be all that the part has.
func (p part) order(from, to int) ([]int, error) {
	cell := make([]int, to-from)
	for i := range cell {
		cell[i] = -1
	}
	for i := range p.cells {
		at := p.position(i) - from
		if at < 0 || at >= len(cell) || cell[at] >= 0 {
			return nil, fmt.Errorf("llama.cpp exported position %d, wanted [%d,%d) once each", p.position(i), from, to)
		}
		cell[at] = i
	}
	if p.cells != len(cell) {
		return nil, fmt.Errorf("llama.cpp exported %d positions, wanted [%d,%d)", p.cells, from, to)
	}
	return cell, nil
}
