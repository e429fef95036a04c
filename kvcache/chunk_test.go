package kvcache

import (
	"slices"
	"testing"
)

// TestChunkSpan goes through the rules of chunk geometry, with the numbers of the worked
// examples that they come from.
//
// req: PIPE-03
// req: PIPE-04
func TestChunkSpan(t *testing.T) {
	for _, c := range []struct {
		name   string
		chunk  Chunk
		prompt int
		tpb    int
		sent   int
		want   Span
		due    bool
	}{
		{"an end inside a block leaves it to the next chunk", Chunk{0, 259, true, false}, 600, 32, 0, Span{0, 8}, true},
		{"which starts in the block that was left", Chunk{259, 515, false, false}, 600, 32, 8, Span{8, 16}, true},
		{"and the last one takes the prompt's partial block", Chunk{515, 600, false, true}, 600, 32, 16, Span{16, 19}, true},
		{"the first chunk after a prefix hit carries the prefix", Chunk{12, 24, true, false}, 32, 4, 0, Span{0, 6}, true},
		{"the one after it does not", Chunk{24, 32, false, true}, 32, 4, 6, Span{6, 8}, true},
		{"a hit that ends inside a block", Chunk{13, 18, true, false}, 32, 4, 0, Span{0, 4}, true},
		{"a prompt in one chunk", Chunk{0, 32, true, true}, 32, 4, 0, Span{0, 8}, true},
		{"a prompt in one chunk after a hit", Chunk{12, 31, true, true}, 31, 4, 0, Span{0, 8}, true},
		{"a chunk that ends in the block it starts in", Chunk{9, 11, false, false}, 32, 4, 2, Span{2, 2}, false},
		{"a first chunk shorter than a block", Chunk{0, 3, true, false}, 32, 4, 0, Span{0, 0}, false},
		{"the chunk after it takes what waited", Chunk{3, 9, false, false}, 32, 4, 0, Span{0, 2}, true},
		{"a last chunk shorter than a block", Chunk{31, 32, false, true}, 32, 4, 7, Span{7, 8}, true},
		{"a prompt shorter than a block", Chunk{0, 1, true, true}, 1, 4, 0, Span{0, 1}, true},
		{"a last chunk whose blocks have all left sends even so", Chunk{8, 32, false, true}, 32, 4, 8, Span{8, 8}, true},
		{"after a preemption what was sent is not sent again", Chunk{8, 24, false, false}, 32, 4, 5, Span{5, 6}, true},
		{"nor is a chunk that lies wholly in it", Chunk{0, 16, true, false}, 32, 4, 5, Span{5, 5}, false},
		{"a restart with a longer hit fills the gap", Chunk{20, 26, true, false}, 32, 4, 2, Span{2, 6}, true},
		{"a request that its length limit ends early is at its last chunk", Chunk{0, 9, true, true}, 32, 4, 0, Span{0, 3}, true},
		{"no chunk reaches past the prompt", Chunk{0, 40, true, true}, 30, 4, 0, Span{0, 8}, true},
		{"nor starts past it", Chunk{40, 44, false, true}, 30, 4, 8, Span{8, 8}, true},
	} {
		got, due := ChunkSpan(c.chunk, c.prompt, c.tpb, c.sent)
		if got != c.want || due != c.due {
			t.Errorf("%s: %+v gives %v, due %v: want %v, due %v", c.name, c.chunk, got, due, c.want, c.due)
		}
	}
}

// req: PIPE-08
func TestStaleEnd(t *testing.T) {
	for _, c := range []struct{ prompt, window, tpb, want int }{
		{100, 0, 4, 0},  // full attention needs all
		{64, 17, 4, 12}, // 16 blocks, and the next token sees positions 48 to 64
		{64, 16, 4, 12}, // from 49 on, still in block 12
		{64, 13, 4, 13}, // from 52 on
		{64, 1, 4, 16},  // only itself: no block of the prompt at all
		{63, 1, 4, 15},  // the block that it will be written into
		{10, 64, 4, 0},  // a window longer than the prompt
		{10, 11, 4, 0},  // exactly the prompt and the next token
		{10, 7, 4, 1},
		{1, 1, 1, 1},
	} {
		if got := StaleEnd(c.prompt, c.window, c.tpb); got != c.want {
			t.Errorf("prompt %d, window %d, %d a block: stale end %d, want %d", c.prompt, c.window, c.tpb, got, c.want)
		}
	}
}

// TestWindowBothManagers is the worked example of a window group: 16 blocks, of which the
// final window needs [12,16), and the chunk [11,13). Page pN holds logical block N. Both
// managers must send p12 alone: capping comes before trimming, and trimming is by the final
// window.
//
// req: PIPE-05
// req: PIPE-06
// req: PIPE-07
// req: PIPE-08
func TestWindowBothManagers(t *testing.T) {
	const prompt, window, tpb = 64, 17, 4
	chunk, final := Span{11, 13}, Span{StaleEnd(prompt, window, tpb), 16}
	if final != (Span{12, 16}) {
		t.Fatalf("the example's window is %v", final)
	}
	pages := func(first, end int) (t BlockTable) {
		t.First = first
		for p := first; p < end; p++ {
			t.Blocks = append(t.Blocks, BlockID(p))
		}
		return t
	}
	for name, c := range map[string]struct {
		table  BlockTable
		capped []BlockID
	}{
		"reserve": {pages(0, 16), []BlockID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		"grow":    {pages(9, 13), []BlockID{9, 10, 11, 12}},
	} {
		capped := c.table.Capped(chunk.End)
		if !slices.Equal(capped.Blocks, c.capped) || capped.End() != chunk.End {
			t.Errorf("%s: capped to %v, want %v", name, capped, c.capped)
		}
		got := Project(capped.Blocks, chunk.End, chunk.Intersect(final))
		if !slices.Equal(got, []BlockID{12}) {
			t.Errorf("%s: sends %v, want p12 alone", name, got)
		}
	}
}

// req: PIPE-05
func TestProject(t *testing.T) {
	list := []BlockID{70, 71, 72, 73} // logical blocks [4,8)
	for _, c := range []struct {
		span Span
		want []BlockID
	}{
		{Span{0, 8}, list},
		{Span{5, 7}, []BlockID{71, 72}},
		{Span{2, 5}, []BlockID{70}},
		{Span{7, 12}, []BlockID{73}},
		{Span{0, 4}, nil},
		{Span{8, 9}, nil},
		{Span{6, 6}, nil},
		{Span{7, 5}, nil},
	} {
		if got := Project(list, 8, c.span); !slices.Equal(got, c.want) {
			t.Errorf("blocks %v of a list that holds [4,8): %v, want %v", c.span, got, c.want)
		}
	}
	if got := Project(nil, 8, Span{0, 8}); len(got) != 0 {
		t.Errorf("an empty list gives %v", got)
	}
}

func TestCapped(t *testing.T) {
	table := BlockTable{First: 3, Blocks: []BlockID{30, 31, 32}}
	for end, want := range map[int]int{0: 0, 3: 0, 4: 1, 6: 3, 9: 3} {
		if got := table.Capped(end); got.First != 3 || len(got.Blocks) != want {
			t.Errorf("capped at %d: %v, want %d blocks from 3 on", end, got, want)
		}
	}
}

func TestBlockTable(t *testing.T) {
	table := BlockTable{First: 3, Blocks: []BlockID{30, 31, 32}}
	if table.End() != 6 || table.Block(3) != 30 || table.Block(5) != 32 {
		t.Errorf("%v holds [3,%d), block 3 is %d and block 5 is %d", table, table.End(), table.Block(3), table.Block(5))
	}
}
