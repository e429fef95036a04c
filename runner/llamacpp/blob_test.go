package llamacpp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

// small is the shape of a model with window layers: two full ones and three with the window.
var small = shape{{layers: 2, kind: 1, row: 16}, {layers: 3, kind: 1, row: 16}}

const window = 6

// state makes a state with the given positions in each section, and different bytes everywhere.
func state(s shape, positions ...[]int32) []byte {
	from, n := make([]int, len(s)), 0
	for _, p := range positions {
		n = max(n, len(p))
	}
	for i := range s {
		from[i] = n - len(positions[i])
	}
	b := make([]byte, s.size(from, n))
	for i, p := range s.frame(b, from, n) {
		for cell, pos := range positions[i] {
			binary.LittleEndian.PutUint32(p.bytes[blobCount+cell*blobCell:], uint32(pos))
			for layer := range p.layers {
				for kv := range 2 {
					row := p.at(layer, kv, cell)
					for j := range row {
						row[j] = byte(int(pos)*31 + i*101 + layer*7 + kv*3 + j)
					}
				}
			}
		}
	}
	return b
}

// both gives all sections of small the same positions.
func both(positions ...int32) []byte { return state(small, positions, positions) }

// upTo are the positions [from,to).
func upTo(from, to int) []int32 {
	var out []int32
	for p := from; p < to; p++ {
		out = append(out, int32(p))
	}
	return out
}

// pooled are pools for the shape, and tables that take the blocks backwards.
func pooled(s shape, blocks int) (*rows, []kvcache.BlockTable) {
	l := kvcache.Layout{BlockTokens: 4, KVHeads: 2, HeadDim: s[0].row / 4, DType: kvcache.F16}
	r := &rows{shape: s}
	var tables []kvcache.BlockTable
	next := 0
	for i, section := range s {
		group := kvcache.LayerGroup{Window: i * window}
		for range section.layers {
			group.Layers = append(group.Layers, next)
			next++
		}
		l.Groups = append(l.Groups, group)
		var t kvcache.BlockTable
		for b := range blocks {
			t.Blocks = append(t.Blocks, kvcache.BlockID(blocks-1-b))
		}
		tables = append(tables, t)
		r.pools = append(r.pools, make([]byte, blocks*l.BlockBytes(i)))
	}
	r.layout = l
	return r, tables
}

// TestRoundTrip: whatever the cut of a sequence and the order of cells in each export, the state
// that is assembled from the blocks is that of the whole sequence in order, but for what has left the
// window. Blocks that have nothing else need not be there.
//
// req: SERVE-05 PIPE-08
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := func(name string) section {
			return section{layers: rapid.IntRange(1, 4).Draw(t, name), kind: 1, row: 4 * rapid.IntRange(1, 5).Draw(t, "row")}
		}
		s := shape{layers("full")}
		if rapid.Bool().Draw(t, "windowed") {
			s = append(s, s[0])
			s[1].layers = layers("window").layers
		}
		n := rapid.IntRange(1, 30).Draw(t, "tokens")
		r, tables := pooled(s, 8)
		for from := 0; from < n; {
			to := rapid.IntRange(from+1, n).Draw(t, "cut")
			var chunk [][]int32
			for range s {
				chunk = append(chunk, rapid.Permutation(upTo(from, to)).Draw(t, "cells"))
			}
			if err := r.scatter(state(s, chunk...), tables, from, to); err != nil {
				t.Fatal(err)
			}
			from = to
		}
		want := [][]int32{upTo(0, n)}
		if len(s) > 1 {
			want = append(want, upTo(max(0, n+1-window), n))
			stale := kvcache.StaleEnd(n, window, r.layout.BlockTokens)
			tables[1] = kvcache.BlockTable{First: stale, Blocks: tables[1].Blocks[stale:]}
		}
		if !bytes.Equal(r.assemble(nil, tables, n), state(s, want...)) {
			t.Fatal("the assembled state differs")
		}
	})
}

// TestLayout: the blocks have the project's layout, so that engines that cut them agree.
func TestLayout(t *testing.T) {
	r, tables := pooled(small, 3)
	whole := both(upTo(0, 6)...)
	if err := r.scatter(whole, tables, 0, 6); err != nil {
		t.Fatal(err)
	}
	parts, err := small.parts(whole)
	if err != nil {
		t.Fatal(err)
	}
	const layer, kv, head, pos = 1, 1, 1, 5
	l := r.layout
	size := l.HeadDim * 2
	for g, p := range parts {
		at := int(tables[g].Block(1))*l.BlockBytes(g) + l.HeadOffset(layer, kv, head) + (pos-4)*size
		want := p.at(layer, kv, pos)[head*size:][:size]
		if got := r.pools[g][at:][:size]; !bytes.Equal(got, want) {
			t.Errorf("group %d: block has %v, the row %v", g, got, want)
		}
	}
}

func TestScatterRefuses(t *testing.T) {
	good := []int32{4, 5, 6}
	for name, positions := range map[string][]int32{
		"one too few": {4, 5}, "one too many": {4, 5, 6, 7}, "twice": {4, 5, 5}, "below": {3, 4, 5}, "negative": {4, 5, -1},
	} {
		for section, b := range [][]byte{state(small, positions, positions), state(small, good, positions)} {
			r, tables := pooled(small, 3)
			if err := r.scatter(b, tables, 4, 7); err == nil {
				t.Errorf("%s in section %d: taken", name, section)
			}
			for _, pool := range r.pools {
				if slices.ContainsFunc(pool, func(b byte) bool { return b != 0 }) {
					t.Errorf("%s in section %d: written", name, section)
				}
			}
		}
	}
}

// TestPartsRefuses: each number of the form that is another one is refused, in each section.
func TestPartsRefuses(t *testing.T) {
	good := both(0, 1)
	if p, err := small.parts(good); err != nil || len(p) != 2 || p[1].cells != 2 || p[1].position(1) != 1 {
		t.Fatalf("%v, %v", p, err)
	}
	if s, err := probe(good); err != nil || !slices.Equal(s, small) {
		t.Fatalf("%+v, %v", s, err)
	}
	fields := map[string]int{"magic": 0}
	at := blobHead
	for i, s := range small {
		shapeAt := at + blobCount + 2*blobCell
		for name, offset := range map[string]int{
			"streams": at, "cells": at + 4, "owners": at + blobCount + 4, "transposed": shapeAt, "layers": shapeAt + 4,
			"K type": at + s.rows(2, 1, 0) - blobLayer, "V row": at + s.rows(2, 1, 1) - blobLayer + 4,
		} {
			fields[fmt.Sprintf("%s of section %d", name, i)] = offset
		}
		at += s.size(2)
	}
	for name, at := range fields {
		b := bytes.Clone(good)
		b[at]++
		if _, err := small.parts(b); !errors.Is(err, errBlob) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := probe(b); !errors.Is(err, errBlob) {
			t.Errorf("probe, %s: %v", name, err)
		}
	}
	for n := range good {
		if _, err := small.parts(good[:n]); !errors.Is(err, errBlob) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for name, s := range map[string]shape{"one section": small[:1], "three": {small[0], small[1], small[1]}} {
		if _, err := s.parts(good); !errors.Is(err, errBlob) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := probe(state(shape{small[0], small[1], small[1]}, upTo(0, 1), upTo(0, 1), upTo(0, 1))); !errors.Is(err, errBlob) {
		t.Errorf("three sections: %v", err)
	}
}

// FuzzState: whatever bytes stand for a state, they are a state of that shape or an error.
func FuzzState(f *testing.F) {
	f.Add(both(0, 1, 2))
	f.Add(state(small, upTo(0, 9), upTo(4, 9)))
	f.Add(state(shape{{layers: 1, kind: 0, row: 1}}, []int32{7}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if parts, err := small.parts(b); err == nil && whole(parts) != len(b) {
			t.Errorf("%d sections of %d bytes", len(parts), len(b))
		}
		s, err := probe(b)
		if err != nil {
			return
		}
		if parts, err := s.parts(b); err != nil || whole(parts) != len(b) {
			t.Errorf("probed %+v, but %v", s, err)
		}
		r, tables := pooled(small, 2)
		_ = r.scatter(b, tables, 0, 3)
	})
}

// whole is the size of a state of these parts.
func whole(parts []part) int {
	n := blobHead
	for _, p := range parts {
		n += len(p.bytes)
	}
	return n
}
