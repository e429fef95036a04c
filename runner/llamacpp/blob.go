package llamacpp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The state of one sequence, as llama.cpp v0.5.0 writes and reads it (little-endian):
//
//	magic u32, sequence u32
//	a section of the full layers
//	a section of the window layers, where the model has any
//
// and a section is
//
//	streams u32 = 1, cells u32
//	a cell:  position i32, owners u32 = 1, owner i32
//	transposed u32 = 0, layers u32
//	a layer: type i32, row bytes u64, a K row a cell
//	a layer: type i32, row bytes u64, a V row a cell
//
// It has no version of its own. V is transposed only without flash attention, which we always use.
// A section of no cells ends behind their number; we never ask for one. The window's section has
// none of the cells that the sequence's last token does not see.
const (
	blobMagic  = 0xaf143cd8
	blobHead   = 8
	blobCount  = 8
	blobCell   = 12
	blobShape  = 8
	blobLayer  = 12
	blobParts  = 2 // the most sections that a state has
	wholeShape = blobCount + blobCell + blobShape + blobLayer
)

// section is what a section is like in all states of one context.
type section struct {
	layers int
	kind   int32 // llama.cpp's number of the stored type
	row    int   // bytes of one token's K, or V, in one layer
}

// size is the bytes of n cells.
func (s section) size(n int) int {
	return blobCount + n*blobCell + blobShape + 2*s.layers*(blobLayer+n*s.row)
}

// rows is where in n cells a layer's K (kv 0) or V (kv 1) rows begin.
func (s section) rows(n, layer, kv int) int {
	return blobCount + n*blobCell + blobShape + (kv*s.layers+layer)*(blobLayer+n*s.row) + blobLayer
}

// part is a section in a state. Its cells are in some order; number i has row i of each layer.
type part struct {
	section
	cells int
	bytes []byte
}

// position is that of a cell.
func (p part) position(cell int) int {
	return int(int32(binary.LittleEndian.Uint32(p.bytes[blobCount+cell*blobCell:])))
}

// at is a cell's K (kv 0) or V (kv 1) row of a layer, by its number in the section.
func (p part) at(layer, kv, cell int) []byte {
	from := p.rows(p.cells, layer, kv) + cell*p.row
	return p.bytes[from : from+p.row]
}

// frame writes all of a section of the positions [from,to) but its rows into buf.
func (s section) frame(buf []byte, from, to int) part {
	le := binary.LittleEndian
	n := to - from
	le.PutUint32(buf, 1)
	le.PutUint32(buf[4:], uint32(n))
	at := blobCount
	for i := range n {
		le.PutUint32(buf[at:], uint32(from+i))
		le.PutUint32(buf[at+4:], 1)
		le.PutUint32(buf[at+8:], 0)
		at += blobCell
	}
	le.PutUint32(buf[at:], 0)
	le.PutUint32(buf[at+4:], uint32(s.layers))
	for kv := range 2 {
		for layer := range s.layers {
			head := buf[s.rows(n, layer, kv)-blobLayer:]
			le.PutUint32(head, uint32(s.kind))
			le.PutUint64(head[4:], uint64(s.row))
		}
	}
	return part{s, n, buf[:s.size(n)]}
}

// shape is what all states of one context have in common: their sections.
type shape []section

// size is the bytes of a state that has the positions [from[i],to) in section i.
func (s shape) size(from []int, to int) int {
	n := blobHead
	for i, section := range s {
		n += section.size(to - from[i])
	}
	return n
}

// frame writes all of such a state but its rows into buf, which is size long.
func (s shape) frame(buf []byte, from []int, to int) []part {
	binary.LittleEndian.PutUint32(buf, blobMagic)
	binary.LittleEndian.PutUint32(buf[4:], 0)
	parts := make([]part, len(s))
	at := blobHead
	for i, section := range s {
		parts[i] = section.frame(buf[at:], from[i], to)
		at += len(parts[i].bytes)
	}
	return parts
}

var errBlob = errors.New("llama.cpp's state is not in the form of " + Version)

// parts checks that b is a whole state of this shape, and takes it apart.
func (s shape) parts(b []byte) ([]part, error) {
	rest, err := body(b)
	if err != nil {
		return nil, err
	}
	parts := make([]part, len(s))
	for i, section := range s {
		if parts[i], err = section.part(rest); err != nil {
			return nil, fmt.Errorf("section %d: %w", i, err)
		}
		rest = rest[len(parts[i].bytes):]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind its sections", errBlob, len(rest))
	}
	return parts, nil
}

// body is what follows the head of a state.
func body(b []byte) ([]byte, error) {
	if len(b) < blobHead {
		return nil, fmt.Errorf("%w: %d bytes", errBlob, len(b))
	}
	if m := binary.LittleEndian.Uint32(b); m != blobMagic {
		return nil, fmt.Errorf("%w: it begins with %#x", errBlob, m)
	}
	return b[blobHead:], nil
}

// part checks the section that b begins with.
func (s section) part(b []byte) (part, error) {
	le := binary.LittleEndian
	if len(b) < wholeShape {
		return part{}, fmt.Errorf("%w: %d bytes", errBlob, len(b))
	}
	if n := le.Uint32(b); n != 1 {
		return part{}, fmt.Errorf("%w: %d streams", errBlob, n)
	}
	// More cells than bytes cannot be: this bound keeps the products below from overflowing.
	n := int64(le.Uint32(b[4:]))
	if n < 1 || n > int64(len(b))/blobCell || s.size(int(n)) > len(b) {
		return part{}, fmt.Errorf("%w: %d bytes for %d cells", errBlob, len(b), n)
	}
	p := part{s, int(n), b[:s.size(int(n))]}
	for i := range p.cells {
		if owners := le.Uint32(b[blobCount+i*blobCell+4:]); owners != 1 {
			return part{}, fmt.Errorf("%w: cell %d has %d owners", errBlob, i, owners)
		}
	}
	at := b[blobCount+p.cells*blobCell:]
	if transposed, layers := le.Uint32(at), le.Uint32(at[4:]); transposed != 0 || int64(layers) != int64(s.layers) {
		return part{}, fmt.Errorf("%w: %d layers, transposed %d", errBlob, layers, transposed)
	}
	for kv := range 2 {
		for layer := range s.layers {
			head := b[s.rows(p.cells, layer, kv)-blobLayer:]
			if kind, row := int32(le.Uint32(head)), le.Uint64(head[4:]); kind != s.kind || row != uint64(s.row) {
				return part{}, fmt.Errorf("%w: layer %d has rows of %d bytes of type %d, want %d of type %d", errBlob, layer, row, kind, s.row, s.kind)
			}
		}
	}
	return p, nil
}

// probe reads the shape of a state that llama.cpp made, with at least one cell in each section.
func probe(b []byte) (shape, error) {
	rest, err := body(b)
	if err != nil {
		return nil, err
	}
	var s shape
	for len(s) == 0 || len(rest) > 0 {
		if len(s) == blobParts {
			return nil, fmt.Errorf("%w: more than %d sections", errBlob, blobParts)
		}
		found, err := probeSection(rest)
		if err != nil {
			return nil, fmt.Errorf("section %d: %w", len(s), err)
		}
		p, err := found.part(rest)
		if err != nil {
			return nil, fmt.Errorf("section %d: %w", len(s), err)
		}
		s, rest = append(s, found), rest[len(p.bytes):]
	}
	return s, nil
}

// probeSection reads what the section that b begins with says of itself.
func probeSection(b []byte) (section, error) {
	if len(b) < wholeShape {
		return section{}, fmt.Errorf("%w: %d bytes", errBlob, len(b))
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	at := blobCount + n*blobCell
	if n < 1 || at+blobShape+blobLayer > int64(len(b)) {
		return section{}, fmt.Errorf("%w: %d bytes for %d cells", errBlob, len(b), n)
	}
	layers := int64(binary.LittleEndian.Uint32(b[at+4:]))
	head := b[at+blobShape:]
	row := binary.LittleEndian.Uint64(head[4:])
	// What one cell takes is in the bytes, which keeps the products from overflowing.
	if most := uint64(len(b)); row == 0 || row > most || layers < 1 || uint64(layers)*(blobLayer+row) > most/2 {
		return section{}, fmt.Errorf("%w: %d layers with rows of %d bytes", errBlob, layers, row)
	}
	return section{layers: int(layers), kind: int32(binary.LittleEndian.Uint32(head)), row: int(row)}, nil
}
