package kvcache

import (
	"strings"
	"testing"
)

// TestLayoutTilesABlock marks every byte of a block by the head that owns it.
func TestLayoutTilesABlock(t *testing.T) {
	l := Layout{
		BlockTokens: 3, KVHeads: 2, HeadDim: 5, DType: F32,
		Groups: []LayerGroup{{Layers: []int{0, 2, 4}}, {Window: 8, Layers: []int{1}}},
	}
	if l.HeadBytes() != 3*5*4 || l.LayerBytes() != 2*2*l.HeadBytes() {
		t.Errorf("head %d B, layer %d B", l.HeadBytes(), l.LayerBytes())
	}
	for g, group := range l.Groups {
		owners := make([]int, l.BlockBytes(g))
		for layer := range group.Layers {
			for kv := range 2 {
				for head := range l.KVHeads {
					at := l.HeadOffset(layer, kv, head)
					for i := at; i < at+l.HeadBytes(); i++ {
						owners[i]++
					}
				}
			}
		}
		for i, n := range owners {
			if n != 1 {
				t.Fatalf("byte %d of a block of group %d belongs to %d heads", i, g, n)
			}
		}
	}
	// [layer][K,V][head]: the order that equal and unequal ranks rely on.
	if l.HeadOffset(0, 0, 1) >= l.HeadOffset(0, 1, 0) || l.HeadOffset(0, 1, 1) >= l.HeadOffset(1, 0, 0) {
		t.Error("heads are not inside K or V inside a layer")
	}
}

// req: PIPE-03
func TestTotalBlocks(t *testing.T) {
	l := Layout{BlockTokens: 32}
	for n, want := range map[int]int{0: 0, 1: 1, 31: 1, 32: 1, 33: 2, 259: 9} {
		if got := l.TotalBlocks(n); got != want {
			t.Errorf("%d tokens take %d blocks, want %d", n, got, want)
		}
	}
}

func TestLayoutValidate(t *testing.T) {
	good := func() Layout {
		return Layout{BlockTokens: 4, KVHeads: 1, HeadDim: 8, DType: F16, Groups: []LayerGroup{{Layers: []int{0}}}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Layout){
		"block tokens 0":      func(l *Layout) { l.BlockTokens = 0 },
		"kv heads -1":         func(l *Layout) { l.KVHeads = -1 },
		"head dim 0":          func(l *Layout) { l.HeadDim = 0 },
		"kv dtype dtype(9)":   func(l *Layout) { l.DType = 9 },
		"kv dtype dtype(0)":   func(l *Layout) { l.DType = 0 },
		"dim 8: kv dtype q8_": func(l *Layout) { l.DType = Q8_0 },
		"no layer group":      func(l *Layout) { l.Groups = nil },
		"group 0 has no":      func(l *Layout) { l.Groups[0].Layers = nil },
		"window -1 is negati": func(l *Layout) { l.Groups[0].Window = -1 },
	} {
		l := good()
		spoil(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
