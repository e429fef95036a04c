package transfer

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

// memory is the tokens in one layer group's blocks on one side: memory[block][i] says which
// token's KV is there, and poison that none is.
type memory map[kvcache.BlockID][]int

const poison = -1

func (m memory) at(block kvcache.BlockID, tpb int) []int {
	if m[block] == nil {
		m[block] = make([]int, tpb)
		for i := range m[block] {
			m[block][i] = poison
		}
	}
	return m[block]
}

// ferry is one prompt on its way, as an oracle sees it: token by token.
type ferry struct {
	layout   kvcache.Layout
	prompt   int
	start    int // tokens that the receiver has
	grow     bool
	extra    int // blocks that P reserves past the prompt
	src, dst []memory
	lists    [][]kvcache.BlockID // the receiver's, by group
	firsts   []int               // the first logical block of each
	writes   map[string]int
}

// TestPlanBringsEveryToken cuts random prompts anywhere, with hits on either side, either
// pool manager, windows, and receivers that list more blocks than they need. It copies what
// the plan says and then looks at the receiver's memory: what the next token can see and the
// receiver did not have is there, all else is as it was, and no block came twice.
//
// req: PIPE-03
// req: PIPE-05
// req: PIPE-06
// req: PIPE-07
// req: PIPE-08
// req: PIPE-09
func TestPlanBringsEveryToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFerry(t)
		sent := 0
		c := kvcache.Chunk{Start: rapid.IntRange(0, f.prompt-1).Draw(t, "hit"), First: true}
		f.compute(0, c.Start) // the hit
		for !c.Last {
			c.End = rapid.IntRange(c.Start+1, f.prompt).Draw(t, "end")
			c.Last = c.End == f.prompt
			f.compute(c.Start, c.End)
			span, due := kvcache.ChunkSpan(c, f.prompt, f.layout.BlockTokens, sent)
			if due {
				sent = span.End
				plan, err := Plan(f.layout, f.prompt, span, f.tables(c.End), Destination{Blocks: f.lists, Start: f.start})
				if err != nil {
					t.Fatalf("chunk %+v: %v", c, err)
				}
				f.copy(t, plan)
			}
			c.Start, c.First = c.End, false
		}
		f.check(t)
	})
}

func drawFerry(t *rapid.T) *ferry {
	var windows []int
	for range rapid.IntRange(1, 3).Draw(t, "groups") {
		windows = append(windows, rapid.SampledFrom([]int{0, 1, 3, 8, 17, 64}).Draw(t, "window"))
	}
	f := &ferry{
		layout: layoutOf(rapid.IntRange(1, 9).Draw(t, "tpb"), windows...),
		prompt: rapid.IntRange(1, 60).Draw(t, "prompt"),
		grow:   rapid.Bool().Draw(t, "grow"),
		extra:  rapid.IntRange(0, 2).Draw(t, "extra"),
		writes: map[string]int{},
	}
	f.start = rapid.OneOf(rapid.Just(0), rapid.IntRange(0, f.prompt)).Draw(t, "start")
	total := (f.prompt + f.layout.BlockTokens - 1) / f.layout.BlockTokens
	for g := range windows {
		f.src, f.dst = append(f.src, memory{}), append(f.dst, memory{})
		// The list may begin anywhere that leaves nothing out.
		most := 0
		for most < total && !f.wanted(g, most) {
			most++
		}
		first := rapid.IntRange(0, most).Draw(t, "first")
		var list []kvcache.BlockID
		for b := first; b < total; b++ {
			list = append(list, dstBlock(g, total-1-b))
		}
		f.lists, f.firsts = append(f.lists, list), append(f.firsts, first)
	}
	return f
}

// wanted says whether the receiver must get a block: some of its tokens are in sight of the
// next one, and some are not there yet.
func (f *ferry) wanted(g, block int) bool {
	tpb, window := f.layout.BlockTokens, f.layout.Groups[g].Window
	inSight, missing := false, false
	for pos := block * tpb; pos < (block+1)*tpb; pos++ {
		if window == 0 || f.prompt-pos < window {
			inSight = true
		}
		if pos >= f.start && pos < f.prompt {
			missing = true
		}
	}
	return inSight && missing
}

// compute fills the sender's memory.
func (f *ferry) compute(from, to int) {
	tpb := f.layout.BlockTokens
	for g := range f.src {
		for pos := from; pos < to; pos++ {
			f.src[g].at(srcBlock(g, pos/tpb), tpb)[pos%tpb] = pos
		}
	}
}

// tables is what the sender's pool manager holds when tokens [0,end) are computed: all of the
// prompt and more, or what is computed and still in its window.
func (f *ferry) tables(end int) []kvcache.BlockTable {
	var tables []kvcache.BlockTable
	tpb := f.layout.BlockTokens
	for g, group := range f.layout.Groups {
		first, after := 0, (f.prompt+tpb-1)/tpb+f.extra
		if f.grow {
			after = (end + tpb - 1) / tpb
			for group.Window > 0 && end-((first+1)*tpb-1) >= group.Window && first < after {
				first++ // not even its last token is in sight of the token at end
			}
		}
		t := kvcache.BlockTable{First: first}
		for b := first; b < after; b++ {
			t.Blocks = append(t.Blocks, srcBlock(g, b))
		}
		tables = append(tables, t)
	}
	return tables
}

func (f *ferry) copy(t *rapid.T, plan []GroupCopy) {
	tpb := f.layout.BlockTokens
	for _, c := range plan {
		if len(c.Src) != len(c.Dst) || len(c.Src) == 0 {
			t.Fatalf("%v is to be copied to %v", c.Src, c.Dst)
		}
		for i := range c.Src {
			f.writes[fmt.Sprint(c.Group, " ", c.Dst[i])]++
			copy(f.dst[c.Group].at(c.Dst[i], tpb), f.src[c.Group].at(c.Src[i], tpb))
		}
	}
}

func (f *ferry) check(t *rapid.T) {
	tpb := f.layout.BlockTokens
	for key, n := range f.writes {
		if n > 1 {
			t.Fatalf("block %s was written %d times", key, n)
		}
	}
	for g := range f.dst {
		for i, id := range f.lists[g] {
			block := f.firsts[g] + i
			for j, got := range f.dst[g].at(id, tpb) {
				want := poison
				if pos := block*tpb + j; f.wanted(g, block) && pos < f.prompt {
					want = pos
				}
				if got != want {
					t.Fatalf("group %d, block %d, token %d: holds %d, want %d", g, block, j, got, want)
				}
			}
			delete(f.dst[g], id)
		}
		if len(f.dst[g]) > 0 {
			t.Fatalf("group %d: blocks that are not the request's were written: %v", g, f.dst[g])
		}
	}
}
