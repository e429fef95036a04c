package kvcache

import (
	"testing"

	"pgregory.net/rapid"
)

// TestChainAgrees: two chains agree to the end of the last block that is alike, or to the end of
// both if they are of the same tokens; other salts never agree.
//
// req: LEASE-23
func TestChainAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tpb := rapid.IntRange(1, 5).Draw(t, "tpb")
		draw := rapid.SliceOfN(rapid.Int32Range(0, 1), 0, 20)
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		copy(b, a[:rapid.IntRange(0, min(len(a), len(b))).Draw(t, "alike")])
		n := common(a, b)
		want := n / tpb * tpb
		if n == len(a) && n == len(b) {
			want = n
		}
		if got := Agree(Chain("s", tpb, a), len(a), Chain("s", tpb, b), len(b), tpb); got != want {
			t.Fatalf("%v and %v agree in %d tokens, and %d were found", a, b, want, got)
		}
		if got := Agree(Chain("s", tpb, a), len(a), Chain("z", tpb, a), len(a), tpb); got != 0 {
			t.Fatalf("another salt agrees in %d", got)
		}
	})
}

// TestTrim: what is behind the first tokens goes back to the pools, and no more.
//
// req: LEASE-20
func TestTrim(t *testing.T) {
	for _, c := range []struct{ tokens, free int }{{0, 16}, {1, 14}, {8, 12}, {9, 10}, {20, 6}, {99, 6}} {
		m, _ := NewReserve(Layout{BlockTokens: 4, KVHeads: 1, HeadDim: 1, DType: F16, Groups: []LayerGroup{{Layers: []int{0}}, {Layers: []int{1}}}},
			[]int{8, 8}, Options{})
		h, _ := m.Admit(Demand{Prompt: 12, Tokens: 20}, make([]int32, 12))
		m.Trim(h, c.tokens)
		if _, free := m.Count(); free != c.free {
			t.Errorf("%d tokens kept: %d blocks free, want %d", c.tokens, free, c.free)
		}
		m.Give(h)
		if total, free := m.Count(); total != free {
			t.Errorf("%d tokens kept: %d of %d free in the end", c.tokens, free, total)
		}
	}
}
