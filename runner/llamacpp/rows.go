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
		first := r.from[g]
		for layer := range r.layout.Groups[g].Layers {
			for kv := range 2 {
				r.get(place{g, layer}, kv, tables[g], first, n-first, func(i int) []byte { return p.at(layer, kv, i) })
			}
		}
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
		for layer := range r.layout.Groups[g].Layers {
			for kv := range 2 {
				r.put(place{g, layer}, kv, tables[g], from, to-from, func(i int) []byte { return p.at(layer, kv, cells[g][i]) })
			}
		}
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
