package kvcache

import (
	"strings"
	"testing"
)

// hybrid is a layout of a full group and one that keeps a state of 100 bytes for two layers.
func hybrid(tpb int) Layout {
	l := full(tpb)
	l.Groups = append(l.Groups, LayerGroup{Layers: []int{1, 2}, StateBytes: 100})
	return l
}

// TestOnlyTheFirstChunkCarriesMore: a chunk that is not the first starts where it starts, whatever
// has left.
//
// req: PIPE-03
func TestOnlyTheFirstChunkCarriesMore(t *testing.T) {
	for first, want := range map[bool]Span{false: {5, 6}, true: {2, 6}} {
		if got, due := ChunkSpan(Chunk{20, 26, first, false}, 32, 4, 2); got != want || !due {
			t.Errorf("first %v: %v, want %v", first, got, want)
		}
	}
}

func TestNewGrowRefuses(t *testing.T) {
	if m, err := NewGrow(full(4), []int{0}, Options{}); m != nil || err == nil || !strings.Contains(err.Error(), "has 0 blocks") {
		t.Errorf("%v, %v", m, err)
	}
}

// TestState: a recurrent group has one block of a request, however long that is, and a group with a
// state has no window.
//
// req: PIPE-31
func TestState(t *testing.T) {
	l := hybrid(4)
	if n := l.BlockBytes(1); n != 200 {
		t.Errorf("a block of two states has %d bytes", n)
	}
	for _, bad := range []LayerGroup{{Layers: []int{1}, StateBytes: -1}, {Layers: []int{1}, StateBytes: 5, Window: 3}} {
		b := full(4)
		b.Groups = []LayerGroup{bad}
		if err := b.Validate(); err == nil || !strings.Contains(err.Error(), "state of") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	reserve, _ := NewReserve(l, []int{9, 1}, Options{})
	grow, _ := NewGrow(l, []int{9, 1}, Options{})
	d := Demand{Prompt: 30, Tokens: 34}
	for name, m := range map[string]Manager{"reserve": reserve, "grow": grow} {
		if err := m.Fits(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h, ok := m.Admit(d, prompt(30))
		if !ok || !m.Extend(h, 0, 34) || len(h.Tables[1].Blocks) != 1 {
			t.Errorf("%s: admitted %v: %+v", name, ok, h)
			continue
		}
		m.Trim(h, 0)
		if len(h.Tables[0].Blocks) != 0 || len(h.Tables[1].Blocks) != 1 {
			t.Errorf("%s: trimmed to %+v", name, h.Tables)
		}
	}
}

// Both types that a cache can hold are valid.
func TestDTypesAreValid(t *testing.T) {
	for _, d := range []DType{F16, F32} {
		l := full(4)
		l.DType = d
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoReuse: without reuse nothing is remembered.
func TestNoReuse(t *testing.T) {
	m, _ := NewGrow(full(2), []int{8}, Options{})
	for range 2 {
		if cached := m.served(t, prompt(8)); cached != 0 {
			t.Errorf("%d tokens are cached", cached)
		}
	}
}

// TestGrowWholeArrival: a prompt that arrives whole has no pass to wait for, so that a hit inside a
// block is used even if the request will fill the pools.
//
// req: PIPE-09
func TestGrowWholeArrival(t *testing.T) {
	m, _ := NewGrow(full(4), []int{3}, Options{Reuse: true})
	m.served(t, prompt(8))
	d := Demand{Prompt: 6, Tokens: 12, Arrives: 6}
	if h, ok := m.Admit(d, prompt(6)); !ok || h.Cached != 6 {
		t.Errorf("admitted %v: %+v, want 6 tokens cached", ok, h)
	}
}

// TestExtendWithRoom: where there is room for more than is asked for, nothing is taken.
func TestExtendWithRoom(t *testing.T) {
	m, _ := NewGrow(full(4), []int{4}, Options{})
	h, _ := m.Admit(Demand{Prompt: 12, Tokens: 12}, prompt(12))
	m.Extend(h, 0, 12)
	if !m.Extend(h, 0, 4) || len(h.Tables[0].Blocks) != 3 {
		t.Errorf("it has %v", h.Tables[0].Blocks)
	}
}

// TestCommitFirstCopyStays: of two requests that computed the same, the first one's blocks are
// found; and what a request has no block for is not named.
//
// req: PIPE-36
func TestCommitFirstCopyStays(t *testing.T) {
	m, _ := NewGrow(full(4), []int{12}, Options{Reuse: true})
	tokens := prompt(9)
	d := Demand{Prompt: 9, Tokens: 9}
	a, _ := m.Admit(d, tokens)
	b, _ := m.Admit(d, tokens)
	for _, h := range []*Holding{a, b} {
		m.Extend(h, 0, 8)
		m.Commit(h, prompt(16))
	}
	c, ok := m.Admit(d, tokens)
	if !ok || c.Cached != 8 || c.Tables[0].Block(0) != a.Tables[0].Block(0) || c.Tables[0].Block(1) != a.Tables[0].Block(1) {
		t.Errorf("admitted %v: %+v, want the blocks of %+v", ok, c, a)
	}
	if n := len(m.index.nodes); n != 3 {
		t.Errorf("%d nodes are known, want 2", n-1)
	}
}

// TestLongestPart: of blocks that begin like the prompt the one is copied that agrees longest,
// whichever was first.
//
// req: PIPE-09
func TestLongestPart(t *testing.T) {
	m, _ := NewGrow(full(4), []int{9}, Options{Reuse: true})
	for _, tokens := range [][]int32{{1, 2, 7, 7}, {1, 2, 3, 9}, {1, 8, 8, 8}} {
		m.served(t, tokens)
	}
	if cached := m.served(t, []int32{1, 2, 3, 4, 5}); cached != 3 {
		t.Errorf("%d tokens are cached, want 3", cached)
	}
}

// TestShardsRefuses: what cannot be cut is refused by the setting's name.
//
// req: PIPE-10
func TestShardsRefuses(t *testing.T) {
	l := Layout{BlockTokens: 4, KVHeads: 4, HeadDim: 2, DType: F16, Groups: []LayerGroup{{Layers: []int{0, 1}}}}
	for _, c := range []struct {
		p    Parallel
		want string
	}{
		{Parallel{0, 1}, "tensor_parallel_size 0"},
		{Parallel{-2, 1}, "tensor_parallel_size -2"},
		{Parallel{3, 1}, "tensor_parallel_size 3"},
		{Parallel{6, 1}, "tensor_parallel_size 6"},
		{Parallel{1, 0}, "pipeline_parallel_size 0"},
		{Parallel{1, 3}, "pipeline_parallel_size 3"},
		{Parallel{8, 2}, ""},
	} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%+v: panic: %v", c.p, r)
				}
			}()
			shards, err := l.Shards(c.p)
			if c.want == "" && (err != nil || len(shards) != 16) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%+v: %d shards, %v: want %q", c.p, len(shards), err, c.want)
			}
		}()
	}
}

// TestShardOfState: every rank of a stage holds the whole state of its layers.
//
// req: PIPE-31
func TestShardOfState(t *testing.T) {
	shards, err := hybrid(4).Shards(Parallel{Tensor: 2, Pipeline: 1})
	if err != nil {
		t.Fatal(err)
	}
	for rank, s := range shards {
		if s.BlockBytes(1) != 200 || s.StateOffset(1, 1) != 100 {
			t.Errorf("rank %d: %d bytes, the second state at %d", rank, s.BlockBytes(1), s.StateOffset(1, 1))
		}
	}
}
