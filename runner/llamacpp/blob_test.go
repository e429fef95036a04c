package llamacpp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

var small = shape{layers: 3, kind: 1, row: 16}

// state makes a state of the given positions with different bytes everywhere.
func state(s shape, positions []int32) []byte {
	b := make([]byte, s.size(len(positions)))
	s.frame(b, len(positions))
	for i, p := range positions {
		binary.LittleEndian.PutUint32(b[blobHead+i*blobCell:], uint32(p))
	}
	for layer := range s.layers {
		for kv := range 2 {
			for i, p := range positions {
				row := b[s.rows(len(positions), layer, kv)+i*s.row:][:s.row]
				for j := range row {
					row[j] = byte(int(p)*31 + layer*7 + kv*3 + j)
				}
			}
		}
	}
	return b
}

// pooled are blocks for the shape, and a table that takes them backwards.
func pooled(s shape, blocks int) (*rows, kvcache.BlockTable) {
	l := kvcache.Layout{BlockTokens: 4, KVHeads: 2, HeadDim: s.row / 4, DType: kvcache.F16, Groups: []kvcache.LayerGroup{{}}}
	var t kvcache.BlockTable
	for i := range s.layers {
		l.Groups[0].Layers = append(l.Groups[0].Layers, i)
	}
	for i := range blocks {
		t.Blocks = append(t.Blocks, kvcache.BlockID(blocks-1-i))
	}
	return &rows{layout: l, shape: s, pool: make([]byte, blocks*l.BlockBytes(0))}, t
}

// TestRoundTrip: whatever the cut of a sequence and the order of cells in each export, the state
// that is assembled from the blocks is that of the whole sequence in order.
//
// req: SERVE-05
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape{layers: rapid.IntRange(1, 4).Draw(t, "layers"), kind: 1, row: 4 * rapid.IntRange(1, 5).Draw(t, "row")}
		n := rapid.IntRange(1, 30).Draw(t, "tokens")
		r, table := pooled(s, 8)
		var all []int32
		for from := 0; from < n; {
			to := rapid.IntRange(from+1, n).Draw(t, "cut")
			var chunk []int32
			for p := from; p < to; p++ {
				chunk = append(chunk, int32(p))
			}
			all = append(all, chunk...)
			if err := r.scatter(state(s, rapid.Permutation(chunk).Draw(t, "cells")), table, from, to); err != nil {
				t.Fatal(err)
			}
			from = to
		}
		if !bytes.Equal(r.assemble(nil, table, n), state(s, all)) {
			t.Fatal("the assembled state differs")
		}
	})
}

// TestLayout: the blocks have the project's layout, so that engines that cut them agree.
func TestLayout(t *testing.T) {
	r, table := pooled(small, 3)
	whole := state(small, []int32{0, 1, 2, 3, 4, 5})
	if err := r.scatter(whole, table, 0, 6); err != nil {
		t.Fatal(err)
	}
	const layer, kv, head, pos = 2, 1, 1, 5
	l := r.layout
	size := l.HeadDim * 2
	at := int(table.Block(1))*l.BlockBytes(0) + l.HeadOffset(layer, kv, head) + (pos-4)*size
	want := whole[small.rows(6, layer, kv)+pos*small.row+head*size:][:size]
	if got := r.pool[at:][:size]; !bytes.Equal(got, want) {
		t.Errorf("block has %v, the row %v", got, want)
	}
}

func TestScatterRefuses(t *testing.T) {
	for name, positions := range map[string][]int32{
		"one too few": {4, 5}, "one too many": {4, 5, 6, 7}, "twice": {4, 5, 5}, "below": {3, 4, 5}, "negative": {4, 5, -1},
	} {
		r, table := pooled(small, 3)
		if err := r.scatter(state(small, positions), table, 4, 7); err == nil {
			t.Errorf("%s: taken", name)
		}
		if slices.ContainsFunc(r.pool, func(b byte) bool { return b != 0 }) {
			t.Errorf("%s: written", name)
		}
	}
}

// TestCellsRefuses: each number of the form that is another one is refused.
func TestCellsRefuses(t *testing.T) {
	good := state(small, []int32{0, 1})
	if p, err := small.cells(good); err != nil || !slices.Equal(p, []int32{0, 1}) {
		t.Fatalf("%v, %v", p, err)
	}
	if s, err := probe(good); err != nil || s != small {
		t.Fatalf("%+v, %v", s, err)
	}
	shapeAt := blobHead + 2*blobCell
	for name, at := range map[string]int{
		"magic": 0, "streams": 8, "cells": 12, "owners": blobHead + 4, "transposed": shapeAt, "layers": shapeAt + 4,
		"K type": small.rows(2, 1, 0) - blobSection, "V row": small.rows(2, 2, 1) - blobSection + 4,
	} {
		b := bytes.Clone(good)
		b[at]++
		if _, err := small.cells(b); !errors.Is(err, errBlob) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := probe(b); !errors.Is(err, errBlob) {
			t.Errorf("probe, %s: %v", name, err)
		}
	}
	for n := range good {
		if _, err := small.cells(good[:n]); !errors.Is(err, errBlob) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// FuzzState: whatever bytes stand for a state, they are a state of that shape or an error.
func FuzzState(f *testing.F) {
	f.Add(state(small, []int32{0, 1, 2}))
	f.Add(state(shape{layers: 1, kind: 0, row: 1}, []int32{7}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := small.cells(b); err == nil && small.size(len(p)) != len(b) {
			t.Errorf("%d cells of %d bytes", len(p), len(b))
		}
		s, err := probe(b)
		if err != nil {
			return
		}
		if p, err := s.cells(b); err != nil || len(p) < 1 {
			t.Errorf("probed %+v, but %v", s, err)
		}
		r, table := pooled(small, 2)
		_ = r.scatter(b, table, 0, 3)
	})
}
