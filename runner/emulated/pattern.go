package emulated

import (
	"encoding/binary"
	"fmt"

	"kvferry/kvcache"
)

// wordBytes is the size of the words that rows are made of.
const wordBytes = 8

// step is the distance between the words of a row.
//
// It is a variable because sums of it wrap, which constants must not.
var step uint64 = 0x9e3779b97f4a7c15

// row names a row of a block: the group's layer number layer, K (0) or V (1), head, and the
// token's number in the block.
type row struct{ layer, kv, head, token int }

// pattern is how one layer group's blocks are filled.
type pattern struct {
	layout kvcache.Layout
	group  int
	size   int      // of a row, in bytes
	keys   []uint64 // of each (layer, K or V, head), in their order in a block
}

func newPattern(layout kvcache.Layout, group int) pattern {
	p := pattern{layout: layout, group: group, size: layout.RowBytes()}
	for _, layer := range layout.Groups[group].Layers {
		for kv := range 2 {
			for head := range layout.KVHeads {
				p.keys = append(p.keys, mix(uint64(layer)<<32|uint64(kv)<<16|uint64(head)+step))
			}
		}
	}
	return p
}

// run is where in a block the rows of (layer, K or V, head) number i begin; they lie side by
// side, a row a token.
func (p *pattern) run(i int) int { return i * p.layout.HeadBytes() }

func (p *pattern) rowOf(i, token int) row {
	h := p.layout.KVHeads
	return row{layer: i / (2 * h), kv: i / h % 2, head: i % h, token: token}
}

// fill writes a row, which is a whole number of pairs of words. Its words go up in steps from a first one that holds the link; the
// second holds the token too.
func fill(b []byte, l link, token int32, key uint64) {
	w := uint64(l) ^ key
	second := b[wordBytes:]
	for ; len(b) >= 4*wordBytes; b = b[4*wordBytes:] { // four at a time for speed
		binary.LittleEndian.PutUint64(b, w)
		binary.LittleEndian.PutUint64(b[wordBytes:], w+step)
		binary.LittleEndian.PutUint64(b[2*wordBytes:], w+2*step)
		binary.LittleEndian.PutUint64(b[3*wordBytes:], w+3*step)
		w += 4 * step
	}
	for ; len(b) >= wordBytes; b = b[wordBytes:] {
		binary.LittleEndian.PutUint64(b, w)
		w += step
	}
	binary.LittleEndian.PutUint64(second, binary.LittleEndian.Uint64(second)+uint64(token))
}

// holds says whether a row is what fill wrote.
func holds(b []byte, l link, token int32, key uint64) bool {
	w := uint64(l) ^ key
	if binary.LittleEndian.Uint64(b) != w || binary.LittleEndian.Uint64(b[wordBytes:]) != w+step+uint64(token) {
		return false
	}
	w += step
	w += step
	wrong := uint64(0)
	for b = b[2*wordBytes:]; len(b) >= 2*wordBytes; b = b[2*wordBytes:] {
		wrong |= binary.LittleEndian.Uint64(b) ^ w
		w += step
		wrong |= binary.LittleEndian.Uint64(b[wordBytes:]) ^ w
		w += step
	}
	return wrong == 0
}

// read takes the link and the token out of a row, which may hold anything.
func read(b []byte, key uint64) (link, uint64) {
	w := binary.LittleEndian.Uint64(b)
	return link(w ^ key), binary.LittleEndian.Uint64(b[wordBytes:]) - w - step
}

// MismatchError says that a block does not hold what its sequence needs.
type MismatchError struct {
	// Group is the layer group and Block the block in its pool.
	Group, Block int
	// Layer, Head and Position are the row's; V says that it is of the values.
	Layer, Head, Position int
	V                     bool
	// Why is what is wrong with it.
	Why string
}

func (e *MismatchError) Error() string {
	kv := "K"
	if e.V {
		kv = "V"
	}
	return fmt.Sprintf("wrong KV in block %d of layer group %d: layer %d, %s, head %d, position %d: %s",
		e.Block, e.Group, e.Layer, kv, e.Head, e.Position, e.Why)
}

// mismatch names a row of a block whose first token is at position base.
func (p *pattern) mismatch(block, base int, at row, why string) *MismatchError {
	return &MismatchError{
		Group: p.group, Block: block, Layer: p.layout.Groups[p.group].Layers[at.layer],
		Head: at.head, Position: base + at.token, V: at.kv == 1, Why: why,
	}
}
