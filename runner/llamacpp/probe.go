//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/kvcache"
)

// probe computes tokens and reads from their states how the model's KV is laid out: what does not fit
// a layout of equal layers is refused, and so is a state of another form.
func (r *Runner) probe() error {
	first, err := r.probeState(nil, r.model.BOS, 0)
	if err != nil {
		return err
	}
	s, err := probe(first)
	if err != nil {
		return err
	}
	heads, layers := max(1, int(llama.ModelNHeadKV(r.weights))), 0
	for _, part := range s {
		if part.row != s[0].row || part.kind != s[0].kind {
			return fmt.Errorf("its window layers keep rows of %d bytes and the others of %d, which is not supported with llama.cpp yet", part.row, s[0].row)
		}
		layers += part.layers
	}
	dim, whole := r.opt.KV.Values(s[0].row / heads)
	if n := int(llama.ModelNLayer(r.weights)); layers != n || s[0].row%heads != 0 || !whole {
		return fmt.Errorf("its %d layers keep %d rows of %d bytes for %d heads, which is not supported with llama.cpp yet", n, layers, s[0].row, heads)
	}
	groups, err := r.groups(s, first)
	if err != nil {
		return err
	}
	r.rows.shape = s
	r.rows.layout = kvcache.Layout{BlockTokens: r.opt.BlockTokens, KVHeads: heads, HeadDim: dim, DType: r.opt.KV, Groups: groups}
	return r.rows.layout.Validate()
}

// probeState is the state of a sequence of which the given state, if any, is what is before the token.
func (r *Runner) probeState(before []byte, token int32, pos int) ([]byte, error) {
	defer func() {
		_ = r.batch.Clear()
		_ = llama.MemoryClear(r.memory, false)
	}()
	if before != nil && llama.StateSeqSetDataExt(r.ctx, before, 0, 0) != uint64(len(before)) {
		return nil, errImport
	}
	if err := r.batch.Add(llama.Token(token), llama.Pos(pos), []llama.SeqId{0}, false); err != nil {
		return nil, err
	}
	if code, err := llama.Decode(r.ctx, r.batch); err != nil || code != 0 {
		return nil, fmt.Errorf("llama.cpp could not compute a token: %d, %w", code, errors.Join(err, errDecode))
	}
	state := make([]byte, llama.StateSeqGetSizeExt(r.ctx, 0, 0))
	if n := llama.StateSeqGetDataExt(r.ctx, state, 0, 0); n != uint64(len(state)) {
		return nil, fmt.Errorf("%w: %d of %d bytes", errBlob, n, len(state))
	}
	return state, nil
}

// groups makes the layer groups of a state's sections.
func (r *Runner) groups(s shape, first []byte) ([]kvcache.LayerGroup, error) {
	if len(s) == 1 {
		all := make([]int, s[0].layers)
		for i := range all {
			all[i] = i
		}
		return []kvcache.LayerGroup{{Layers: all}}, nil
	}
	window := int(llama.ModelNSWA(r.weights))
	if window < 2 {
		return nil, fmt.Errorf("its window layers see %d tokens, which is not supported with llama.cpp yet", window)
	}
	full, windowed, err := r.interleaved(s, first)
	if err != nil {
		return nil, err
	}
	return []kvcache.LayerGroup{{Layers: full}, {Window: window, Layers: windowed}}, nil
}

var errOrder = errors.New("the states of its window layers do not show which layers they are, which is not supported with llama.cpp yet")

// interleaved finds which layers are in which section. llama.cpp has no call that says so, and the
// pattern differs by architecture. But a token's rows follow from what the layers before them saw of
// earlier tokens: where a layer's rows of the first token are changed, the second token's rows change
// in the layers behind that one, and in no others.
func (r *Runner) interleaved(s shape, first []byte) (full, windowed []int, err error) {
	token := int32(r.model.Vocab / 2)
	second, err := r.probeState(first, token, 1)
	if err != nil {
		return nil, nil, err
	}
	want, err := s.parts(second)
	if err != nil {
		return nil, nil, err
	}
	for layer := range s[0].layers {
		changed := bytes.Clone(first)
		parts, err := s.parts(changed)
		if err != nil {
			return nil, nil, err
		}
		negate(parts[0].at(layer, 0, 0), r.opt.KV)
		negate(parts[0].at(layer, 1, 0), r.opt.KV)
		state, err := r.probeState(changed, token, 1)
		if err != nil {
			return nil, nil, err
		}
		got, err := s.parts(state)
		if err != nil {
			return nil, nil, err
		}
		own, err := alike(got[0], want[0])
		if err != nil || own != layer+1 {
			return nil, nil, errors.Join(errOrder, err)
		}
		before, err := alike(got[1], want[1])
		if err != nil || before < len(windowed) {
			return nil, nil, errors.Join(errOrder, err)
		}
		for len(windowed) < before {
			windowed = append(windowed, len(full)+len(windowed))
		}
		full = append(full, len(full)+len(windowed))
	}
	for len(windowed) < s[1].layers {
		windowed = append(windowed, len(full)+len(windowed))
	}
	return full, windowed, nil
}

// negate changes the sign of all values of a row.
func negate(row []byte, kind kvcache.DType) {
	// The sign is in the last byte of a number, and in q8_0 in that of the scale, which is first.
	sign, size := 1, 2
	switch kind {
	case kvcache.F32:
		sign, size = 3, 4
	case kvcache.Q8_0:
		size = 34
	}
	for i := sign; i < len(row); i += size {
		row[i] ^= 0x80
	}
}

// alike is how many layers, from the first on, have the same rows of position 1 in two parts. Behind
// them all must differ.
func alike(a, b part) (int, error) {
	cell := func(p part) int {
		for i := range p.cells {
			if p.position(i) == 1 {
				return i
			}
		}
		return -1
	}
	i, j := cell(a), cell(b)
	if i < 0 || j < 0 {
		return 0, fmt.Errorf("%w: position 1 is missing", errBlob)
	}
	same := make([]bool, a.layers)
	n := 0
	for layer := range same {
		same[layer] = bytes.Equal(a.at(layer, 0, i), b.at(layer, 0, j)) && bytes.Equal(a.at(layer, 1, i), b.at(layer, 1, j))
		if same[layer] {
			n++
		}
	}
	if slices.Contains(same[:n], false) {
		return 0, errors.New("a layer has other rows, and one behind it the same")
	}
	return n, nil
}
