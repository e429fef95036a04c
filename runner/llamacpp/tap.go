//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// tap follows how llama.cpp computes a batch: to which cells the rows of its tokens go, and when the
// rows of a layer are there. Where the batch's tokens are in llama.cpp's cache no call of its own says,
// but its graph does: an operation for each layer's K, and one for its V, writes the new rows at the
// cells that a tensor of numbers names, one a token in the batch's order.
type tap struct {
	ggml *ggml
	gate *gate
	// What is known of the context.
	group  []int   // of each layer
	row    int     // bytes of a token's K, or V, in a layer
	kind   int32   // llama.cpp's number of the stored type
	layers []cache // of each layer
	slots  map[*tensor]slot
	learn  bool // tensors that are not known yet may come

	// What is known of the batch.
	tokens  int
	cells   [][]int64         // of each group, a cell a token; nil until it is known
	seen    []bool            // of each layer's K and V, whether their writing was asked about
	through int               // the layers below have their rows
	written func(through int) // if not nil, is told of each layer as soon as its rows are there
	err     error
}

// cache is where a layer's K (0) and V (1) rows are: cell i's begin i rows behind the first.
type cache struct {
	base  [2]unsafe.Pointer
	cells [2]int
}

// slot is what a tensor of the cache holds: a layer's K (kv 0) or V (kv 1).
type slot struct{ layer, kv int }

var errTap = errors.New("llama.cpp's memory is not in the form of " + Version)

func newTap(dir string) (*tap, error) {
	g, err := openGGML(dir)
	if err != nil {
		return nil, err
	}
	p := &tap{ggml: g, slots: map[*tensor]slot{}}
	p.gate = newGate(p.look)
	return p, nil
}

// shape says what the layers are: the group of each, and how they store rows.
func (p *tap) shape(group []int, groups, row int, kind int32) {
	p.group, p.row, p.kind = group, row, kind
	p.layers = make([]cache, len(group))
	p.cells = make([][]int64, groups)
	p.seen = make([]bool, 2*len(group))
}

// start begins a batch of so many tokens.
func (p *tap) start(tokens int, written func(through int)) {
	p.tokens, p.written, p.through, p.err = tokens, written, 0, nil
	clear(p.cells)
	clear(p.seen)
	p.gate.op = opSetRows
}

// stop ends a batch, of which then everything is known, if there is no error.
func (p *tap) stop() error {
	p.gate.op = closed
	if p.err != nil {
		return p.err
	}
	for g, cells := range p.cells {
		if cells == nil {
			return fmt.Errorf("%w: nothing wrote rows of layer group %d", errTap, g)
		}
	}
	if (p.learn || p.written != nil) && p.through < len(p.layers) {
		return fmt.Errorf("%w: nothing wrote the rows of layer %d", errTap, p.through)
	}
	return nil
}

// at is a cell's K (kv 0) or V (kv 1) row of a layer.
func (p *tap) at(layer, kv, cell int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(p.layers[layer].base[kv], cell*p.row)), p.row)
}

// look is what the gate calls. Asked before an operation, it says whether it wants to be called when
// that is done; the answer to that call is to go on.
func (p *tap) look(t *tensor, ask bool) bool {
	if !ask {
		p.advance()
		return true
	}
	s, err := p.note(t)
	if err != nil {
		p.err = err
		p.gate.op = closed
		return false
	}
	if p.learn || p.written != nil {
		return p.seen[2*s.layer] && p.seen[2*s.layer+1]
	}
	for _, cells := range p.cells {
		if cells == nil {
			return false
		}
	}
	p.gate.op = closed // nobody waits for a layer, and all cells are known
	return false
}

// advance says how far the layers have their rows, when all that was asked about is done.
func (p *tap) advance() {
	before := p.through
	for p.through < len(p.layers) && p.seen[2*p.through] && p.seen[2*p.through+1] {
		p.through++
	}
	if p.written != nil && p.through > before && p.err == nil {
		p.written(p.through)
	}
}

// note takes from an operation that writes rows which ones they are.
func (p *tap) note(t *tensor) (slot, error) {
	s, known := p.slots[t.viewSrc]
	if !known {
		var err error
		if s, err = p.found(t.viewSrc); err != nil {
			return s, err
		}
	}
	if base := p.layers[s.layer].base[s.kv]; t.data != base {
		return s, fmt.Errorf("%w: the rows of layer %d are %d bytes behind the first", errTap, s.layer, uintptr(t.data)-uintptr(base))
	}
	if p.seen[2*s.layer+s.kv] {
		return s, fmt.Errorf("%w: it cut the batch", errTap)
	}
	p.seen[2*s.layer+s.kv] = true
	return s, p.places(s, t.src[1])
}

// places takes the cells of the batch's tokens.
func (p *tap) places(s slot, index *tensor) error {
	if index == nil || !p.ggml.host(index) {
		return fmt.Errorf("%w: no cells for the rows of layer %d", errTap, s.layer)
	}
	numbers, err := index.numbers()
	if err != nil {
		return fmt.Errorf("%w: %w", errTap, err)
	}
	if len(numbers) != p.tokens {
		return fmt.Errorf("%w: %d cells for %d tokens", errTap, len(numbers), p.tokens)
	}
	g := p.group[s.layer]
	if p.cells[g] == nil {
		p.cells[g] = append([]int64{}, numbers...)
	}
	most := p.layers[s.layer].cells[s.kv]
	for i, cell := range numbers {
		if cell < 0 || cell >= int64(most) || cell != p.cells[g][i] {
			return fmt.Errorf("%w: a row of layer %d goes to cell %d of %d, another one of its group to cell %d", errTap, s.layer, cell, most, p.cells[g][i])
		}
	}
	return nil
}

// found learns what a tensor of the cache holds, which its name says.
func (p *tap) found(t *tensor) (slot, error) {
	if t == nil || !p.learn {
		return slot{}, fmt.Errorf("%w: rows are written to where none were when it was tried", errTap)
	}
	var letter rune
	var layer int
	if n, err := fmt.Sscanf(t.title(), "cache_%c_l%d", &letter, &layer); n != 2 || layer < 0 || layer >= len(p.layers) {
		return slot{}, fmt.Errorf("%w: rows are written to a tensor %q (%w)", errTap, t.title(), err)
	}
	s := slot{layer, strings.IndexRune("kv", letter)}
	switch {
	case s.kv < 0 || p.layers[layer].base[s.kv] != nil:
		return s, fmt.Errorf("%w: rows are written to a second tensor %q", errTap, t.title())
	case !p.ggml.host(t):
		return s, fmt.Errorf("%w: tensor %q is in a device's memory", errTap, t.title())
	case t.kind != p.kind || t.nb[1] != uint64(p.row) || t.ne[2] != 1 || t.ne[3] != 1:
		return s, fmt.Errorf("%w: tensor %q has %v values of type %d in rows of %d bytes", errTap, t.title(), t.ne, t.kind, t.nb[1])
	}
	p.layers[layer].base[s.kv], p.layers[layer].cells[s.kv] = t.data, int(t.ne[1])
	p.slots[t] = s
	return s, nil
}
