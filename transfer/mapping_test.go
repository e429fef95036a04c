package transfer

import (
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

// tagged is one rank's block of one group, a tag for each byte: which layer, K or V, head and
// byte of the head it is.
func tagged(l kvcache.Layout, s kvcache.Shard, g int) []int {
	block := make([]int, s.BlockBytes(g))
	for layer := s.Layers[g].Start; layer < s.Layers[g].End; layer++ {
		if size := l.Groups[g].StateBytes; size > 0 {
			for i := range size {
				block[s.StateOffset(g, layer)+i] = 1 + layer*1000 + i
			}
			continue
		}
		for kv := range 2 {
			for head := s.Heads.Start; head < s.Heads.End; head++ {
				at := s.HeadOffset(g, layer, kv, head)
				for i := range l.HeadBytes() {
					block[at+i] = 1 + ((layer*2+kv)*64+head)*1000 + i
				}
			}
		}
	}
	return block
}

func drawParallel(t *rapid.T, name string) kvcache.Parallel {
	return kvcache.Parallel{
		Tensor:   rapid.SampledFrom([]int{1, 2, 4}).Draw(t, name+" tensor"),
		Pipeline: rapid.IntRange(1, 3).Draw(t, name+" pipeline"),
	}
}

// TestMapping moves a block's tags from any geometry to any other: every byte of every
// receiving rank is written once, by the rank that has it.
//
// req: PIPE-30
// req: PIPE-31
func TestMapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := kvcache.Layout{
			BlockTokens: rapid.IntRange(1, 3).Draw(t, "tpb"), KVHeads: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "heads"),
			HeadDim: 2, DType: kvcache.F16,
			Groups: []kvcache.LayerGroup{{Window: 8, Layers: []int{0, 1, 3}}, {Layers: []int{2, 4}}, {Layers: []int{5}, StateBytes: 6}},
		}
		from, to := drawParallel(t, "from"), drawParallel(t, "to")
		m, err := NewMapping(l, from, to)
		if err != nil {
			t.Fatal(err)
		}
		src, _ := l.Shards(from)
		dst, _ := l.Shards(to)
		for g := range l.Groups {
			got := make([][]int, len(dst))
			for d, s := range dst {
				got[d] = make([]int, s.BlockBytes(g))
			}
			for w := range m.Writers() {
				block := tagged(l, src[w], g)
				for _, p := range m.Pieces(w, g) {
					for i := range p.Len {
						if got[p.DstRank][p.Dst+i] != 0 {
							t.Fatalf("group %d: byte %d of rank %d is written twice", g, p.Dst+i, p.DstRank)
						}
						got[p.DstRank][p.Dst+i] = block[p.Src+i]
					}
				}
				if from == to && !oneWhole(m.Pieces(w, g), w, src[w].BlockBytes(g)) {
					t.Fatalf("equal geometries, and rank %d writes a block of group %d by %+v", w, g, m.Pieces(w, g))
				}
			}
			for d, s := range dst {
				want := tagged(l, s, g)
				for i := range want {
					if got[d][i] != want[i] {
						t.Fatalf("group %d: byte %d of rank %d is %d, want %d", g, i, d, got[d][i], want[i])
					}
				}
			}
		}
	})
}

// oneWhole says whether a rank writes its whole block, at once, into the same rank.
func oneWhole(pieces []Piece, rank, size int) bool {
	if size == 0 {
		return len(pieces) == 0 // a stage without a layer of the group
	}
	return len(pieces) == 1 && pieces[0] == Piece{DstRank: rank, Len: size}
}

// TestMappingSharesTheWork: ranks that hold the same head write it to different receivers.
//
// req: PIPE-30
func TestMappingSharesTheWork(t *testing.T) {
	l := kvcache.Layout{BlockTokens: 1, KVHeads: 1, HeadDim: 1, DType: kvcache.F16, Groups: []kvcache.LayerGroup{{Layers: []int{0}}}}
	for _, c := range []struct {
		from, to kvcache.Parallel
		writers  int
	}{
		{kvcache.Parallel{Tensor: 4, Pipeline: 1}, kvcache.Parallel{Tensor: 2, Pipeline: 1}, 2},
		{kvcache.Parallel{Tensor: 2, Pipeline: 1}, kvcache.Parallel{Tensor: 4, Pipeline: 1}, 2},
		{kvcache.Parallel{Tensor: 4, Pipeline: 1}, kvcache.Parallel{Tensor: 4, Pipeline: 1}, 4},
		{kvcache.Parallel{Tensor: 1, Pipeline: 1}, kvcache.Parallel{Tensor: 4, Pipeline: 1}, 1},
	} {
		m, err := NewMapping(l, c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		owing := 0
		for w := range m.Writers() {
			if m.Owes(w) {
				owing++
			}
		}
		if owing != c.writers {
			t.Errorf("%+v to %+v: %d ranks write, want %d", c.from, c.to, owing, c.writers)
		}
	}
}

// TestMappingElects one writer for replicated heads, and tells who owes nothing.
//
// req: PIPE-30
func TestMappingElects(t *testing.T) {
	l := kvcache.Layout{BlockTokens: 1, KVHeads: 2, HeadDim: 1, DType: kvcache.F16, Groups: []kvcache.LayerGroup{{Layers: []int{0}}}}
	m, err := NewMapping(l, kvcache.Parallel{Tensor: 4, Pipeline: 1}, kvcache.Parallel{Tensor: 1, Pipeline: 1})
	if err != nil {
		t.Fatal(err)
	}
	var owing []int
	for w := range m.Writers() {
		if m.Owes(w) {
			owing = append(owing, w)
		}
	}
	if len(owing) != 2 || owing[0] > 1 || owing[1] < 2 {
		t.Errorf("ranks %v write two heads that ranks 0, 1 and 2, 3 hold alike", owing)
	}
	one, three := kvcache.Parallel{Tensor: 1, Pipeline: 1}, kvcache.Parallel{Tensor: 3, Pipeline: 1}
	if _, err := NewMapping(l, three, one); err == nil {
		t.Error("three ranks of the sender share two heads")
	}
	if _, err := NewMapping(l, one, three); err == nil {
		t.Error("three ranks of the receiver share two heads")
	}
}

// Where both sides are cut alike each rank writes to the one of its own number, also when
// several hold the same head.
//
// req: PIPE-13
func TestMappingKeepsNumbers(t *testing.T) {
	l := layoutOf(4, 0, 5)
	l.KVHeads = 2
	for _, p := range []kvcache.Parallel{{Tensor: 1, Pipeline: 1}, {Tensor: 2, Pipeline: 2}, {Tensor: 4, Pipeline: 1}} {
		m, err := NewMapping(l, p, p)
		if err != nil {
			t.Fatal(err)
		}
		for w := range m.Writers() {
			for g := range l.Groups {
				for _, piece := range m.Pieces(w, g) {
					if piece.DstRank != w {
						t.Errorf("%+v: rank %d writes to rank %d", p, w, piece.DstRank)
					}
				}
			}
		}
	}
}
