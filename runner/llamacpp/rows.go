package llamacpp

import (
	"fmt"

	"kvferry/kvcache"
)

// rows moves KV between the blocks of one pool, of a model whose layers are all of one group, and
// llama.cpp's states.
type rows struct {
	layout kvcache.Layout
	shape  shape
	pool   []byte
}

// each visits the contiguous pieces of the positions [from,to): size bytes of one head of one
// token, at block in the pool, and at row bytes behind the beginning of the token's row in a state.
func (r *rows) each(t kvcache.BlockTable, from, to int, visit func(layer, kv, pos, block, row, size int)) {
	size := r.layout.RowBytes()
	for pos := from; pos < to; pos++ {
		base := int(t.Block(pos/r.layout.BlockTokens))*r.layout.BlockBytes(0) + pos%r.layout.BlockTokens*size
		for layer := range r.shape.layers {
			for kv := range 2 {
				for head := range r.layout.KVHeads {
					visit(layer, kv, pos, base+r.layout.HeadOffset(layer, kv, head), head*size, size)
				}
			}
		}
	}
}

// assemble makes the state of the positions [0,n) out of the blocks. It uses buf if it is large
// enough.
func (r *rows) assemble(buf []byte, t kvcache.BlockTable, n int) []byte {
	if size := r.shape.size(n); cap(buf) < size {
		buf = make([]byte, size)
	} else {
		buf = buf[:size]
	}
	r.shape.frame(buf, n)
	r.each(t, 0, n, func(layer, kv, pos, block, row, size int) {
		at := r.shape.rows(n, layer, kv) + pos*r.shape.row + row
		copy(buf[at:at+size], r.pool[block:block+size])
	})
	return buf
}

// scatter writes a state of exactly the positions [from,to), in whatever order, into the blocks.
// On an error nothing was written.
func (r *rows) scatter(state []byte, t kvcache.BlockTable, from, to int) error {
	positions, err := r.shape.cells(state)
	if err != nil {
		return err
	}
	n := to - from
	cell := make([]int, n) // of each position
	for i := range cell {
		cell[i] = -1
	}
	for i, pos := range positions {
		at := int(pos) - from
		if at < 0 || at >= n || cell[at] >= 0 {
			return fmt.Errorf("llama.cpp exported position %d, wanted [%d,%d) once each", pos, from, to)
		}
		cell[at] = i
	}
	if len(positions) != n {
		return fmt.Errorf("llama.cpp exported %d positions, wanted [%d,%d)", len(positions), from, to)
	}
	r.each(t, from, to, func(layer, kv, pos, block, row, size int) {
		at := r.shape.rows(n, layer, kv) + cell[pos-from]*r.shape.row + row
		copy(r.pool[block:block+size], state[at:at+size])
	})
	return nil
}
