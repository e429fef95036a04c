//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"fmt"

	"kvferry/kvcache"
)

// blocks is how many the pool of group g holds.
func (r *rows) blocks(g int) int { return len(r.pools[g]) / r.layout.BlockBytes(g) }

// row appends all that the blocks have of one position to buf[:0].
func (r *rows) row(buf []byte, tables []kvcache.BlockTable, pos int) []byte {
	buf = buf[:0]
	for g, pool := range r.pools {
		r.each(g, tables[g], pos, pos+1, func(_, _, _, block, _, size int) {
			buf = append(buf, pool[block:block+size]...)
		})
	}
	return buf
}

// size is the bytes of a state of the positions [from,to) in all groups.
func (r *rows) size(from, to int) int {
	r.from = r.from[:0]
	for range r.shape {
		r.from = append(r.from, from)
	}
	return r.shape.size(r.from, to)
}

// Attach hands over the pools, one a layer group, each a whole number of blocks long.
func (r *Runner) Attach(pools [][]byte) error {
	if n := len(r.rows.layout.Groups); len(pools) != n {
		return fmt.Errorf("%d pools for %d layer groups on 1 rank", len(pools), n)
	}
	for g, pool := range pools {
		if size := r.rows.layout.BlockBytes(g); len(pool) == 0 || len(pool)%size != 0 {
			return fmt.Errorf("pool of layer group %d: %d bytes are not a whole number of blocks of %d", g, len(pool), size)
		}
	}
	r.rows.pools = pools
	return nil
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

// places are those of all layers.
func places(groups []kvcache.LayerGroup) []place {
	n := 0
	for _, group := range groups {
		n += len(group.Layers)
	}
	out := make([]place, n)
	for g, group := range groups {
		for i, layer := range group.Layers {
			out[layer] = place{g, i}
		}
	}
	return out
}
