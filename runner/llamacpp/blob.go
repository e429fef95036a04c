package llamacpp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The state of one sequence, as llama.cpp v0.5.0 writes and reads it (little-endian):
//
//	magic u32, sequence u32
//	streams u32 = 1, cells u32
//	a cell:  position i32, owners u32 = 1, owner i32
//	transposed u32 = 0, layers u32
//	a layer: type i32, row bytes u64, a K row a cell
//	a layer: type i32, row bytes u64, a V row a cell
//
// It has no version of its own. V is transposed only without flash attention, which we always use.
const (
	blobMagic   = 0xaf143cd8
	blobHead    = 16
	blobCell    = 12
	blobShape   = 8
	blobSection = 12
)

// shape is what all states of one context have in common.
type shape struct {
	layers int
	kind   int32 // llama.cpp's number of the stored type
	row    int   // bytes of one token's K, or V, in one layer
}

// size is the bytes of a state of n cells.
func (s shape) size(n int) int {
	return blobHead + n*blobCell + blobShape + 2*s.layers*(blobSection+n*s.row)
}

// rows is where a layer's K (kv 0) or V (kv 1) rows begin in a state of n cells.
func (s shape) rows(n, layer, kv int) int {
	return blobHead + n*blobCell + blobShape + (kv*s.layers+layer)*(blobSection+n*s.row) + blobSection
}

// frame writes all of a state of the positions [0,n) but its rows into buf, which is size(n) long.
func (s shape) frame(buf []byte, n int) {
	le := binary.LittleEndian
	le.PutUint32(buf, blobMagic)
	le.PutUint32(buf[4:], 0)
	le.PutUint32(buf[8:], 1)
	le.PutUint32(buf[12:], uint32(n))
	at := blobHead
	for i := range n {
		le.PutUint32(buf[at:], uint32(i))
		le.PutUint32(buf[at+4:], 1)
		le.PutUint32(buf[at+8:], 0)
		at += blobCell
	}
	le.PutUint32(buf[at:], 0)
	le.PutUint32(buf[at+4:], uint32(s.layers))
	for kv := range 2 {
		for layer := range s.layers {
			section := buf[s.rows(n, layer, kv)-blobSection:]
			le.PutUint32(section, uint32(s.kind))
			le.PutUint64(section[4:], uint64(s.row))
		}
	}
}

var errBlob = errors.New("llama.cpp's state is not in the form of " + Version)

// cells checks that b is a whole state of this shape, and gives its cells' positions in order. The
// rows of cell i are number i of each section.
func (s shape) cells(b []byte) ([]int32, error) {
	le := binary.LittleEndian
	if len(b) < blobHead {
		return nil, fmt.Errorf("%w: %d bytes", errBlob, len(b))
	}
	if m := le.Uint32(b); m != blobMagic {
		return nil, fmt.Errorf("%w: it begins with %#x", errBlob, m)
	}
	if n := le.Uint32(b[8:]); n != 1 {
		return nil, fmt.Errorf("%w: %d streams", errBlob, n)
	}
	// More cells than bytes cannot be: this bound keeps the products below from overflowing.
	n := int64(le.Uint32(b[12:]))
	if n > int64(len(b))/blobCell || s.size(int(n)) != len(b) {
		return nil, fmt.Errorf("%w: %d bytes for %d cells", errBlob, len(b), n)
	}
	positions := make([]int32, n)
	for i := range positions {
		cell := b[blobHead+i*blobCell:]
		positions[i] = int32(le.Uint32(cell))
		if owners := le.Uint32(cell[4:]); owners != 1 {
			return nil, fmt.Errorf("%w: cell %d has %d owners", errBlob, i, owners)
		}
	}
	at := b[blobHead+int(n)*blobCell:]
	if transposed, layers := le.Uint32(at), le.Uint32(at[4:]); transposed != 0 || int64(layers) != int64(s.layers) {
		return nil, fmt.Errorf("%w: %d layers, transposed %d", errBlob, layers, transposed)
	}
	for kv := range 2 {
		for layer := range s.layers {
			section := b[s.rows(int(n), layer, kv)-blobSection:]
			if kind, row := int32(le.Uint32(section)), le.Uint64(section[4:]); kind != s.kind || row != uint64(s.row) {
				return nil, fmt.Errorf("%w: layer %d has rows of %d bytes of type %d, want %d of type %d", errBlob, layer, row, kind, s.row, s.kind)
			}
		}
	}
	return positions, nil
}

// probe reads the shape of a state with at least one cell that llama.cpp made.
func probe(b []byte) (shape, error) {
	if len(b) < blobHead {
		return shape{}, fmt.Errorf("%w: %d bytes", errBlob, len(b))
	}
	n := int64(binary.LittleEndian.Uint32(b[12:]))
	at := blobHead + n*blobCell
	if n < 1 || at+blobShape+blobSection > int64(len(b)) {
		return shape{}, fmt.Errorf("%w: %d bytes for %d cells", errBlob, len(b), n)
	}
	layers := int64(binary.LittleEndian.Uint32(b[at+4:]))
	section := b[at+blobShape:]
	row := binary.LittleEndian.Uint64(section[4:])
	// What one cell takes is in the bytes, which keeps the products from overflowing.
	if most := uint64(len(b)); row == 0 || row > most || layers < 1 || uint64(layers)*(blobSection+row) > most/2 {
		return shape{}, fmt.Errorf("%w: %d layers with rows of %d bytes", errBlob, layers, row)
	}
	s := shape{layers: int(layers), kind: int32(binary.LittleEndian.Uint32(section)), row: int(row)}
	if _, err := s.cells(b); err != nil {
		return shape{}, err
	}
	return s, nil
}
