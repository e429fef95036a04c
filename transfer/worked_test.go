package transfer

import (
	"fmt"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/wire"
)

// TestWorkedExamples goes through the numbers by which chunks are explained, from the pools'
// managers to the copies. A copy is shown by the logical blocks that it takes of each group; it
// must write them to the same ones.
//
// req: PIPE-03
// req: PIPE-04
// req: PIPE-06
// req: PIPE-07
// req: PIPE-08
// req: PIPE-09
// req: PIPE-11
func TestWorkedExamples(t *testing.T) {
	for _, c := range []struct {
		name    string
		tpb     int
		prompt  int
		windows []int
		hit     int   // tokens in P's index
		start   int   // tokens that D has
		ends    []int // of chunks
		want    string
	}{
		{
			name: "a chunk that ends at token 259, in blocks of 32", tpb: 32, prompt: 600, windows: []int{0},
			ends: []int{259, 515, 600}, want: "[0,8) | [8,16) | [16,19)",
		},
		{
			name: "a chunk that completes no block", tpb: 32, prompt: 100, windows: []int{0},
			ends: []int{20, 31, 40, 100}, want: "[0,1) | [1,4)",
		},
		{
			name: "P has the first 12 tokens of 32", tpb: 4, prompt: 32, windows: []int{0}, hit: 12,
			ends: []int{24, 32}, want: "[0,6) | [6,8)",
		},
		{
			name: "P has 13, which puts every later chunk off a block's edge", tpb: 4, prompt: 32, windows: []int{0}, hit: 13,
			ends: []int{18, 23, 28, 32}, want: "[0,4) | [4,5) | [5,7) | [7,8)",
		},
		{
			name: "P has the first 12, and the rest is one chunk", tpb: 4, prompt: 32, windows: []int{0}, hit: 12,
			ends: []int{32}, want: "[0,8)",
		},
		{
			name: "D has them too, which hides what a first slice must carry", tpb: 4, prompt: 32, windows: []int{0}, hit: 12, start: 12,
			ends: []int{24, 32}, want: "[3,6) | [6,8)",
		},
		{
			name: "D alone has them", tpb: 4, prompt: 32, windows: []int{0}, start: 12,
			ends: []int{24, 32}, want: "[3,6) | [6,8)",
		},
		{
			name: "a chunk wholly inside what D has", tpb: 4, prompt: 32, windows: []int{0}, start: 28,
			ends: []int{16, 24, 32}, want: "nothing | nothing | [7,8)",
		},
		{
			name: "16 blocks, the window's suffix [12,16), the chunk [11,13)", tpb: 4, prompt: 64, windows: []int{17},
			ends: []int{44, 52, 64}, want: "nothing | [12,13) | [13,16)",
		},
		{
			name: "the same beside a full group", tpb: 4, prompt: 64, windows: []int{0, 17},
			ends: []int{44, 52, 64}, want: "[0,11) | [11,13)+[12,13) | [13,16)+[13,16)",
		},
		{
			name: "a window, and a prefix of D's that reaches into it", tpb: 4, prompt: 64, windows: []int{0, 17}, start: 52,
			ends: []int{56, 64}, want: "[13,14)+[13,14) | [14,16)+[14,16)",
		},
	} {
		for _, grow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, grow %v", c.name, grow), func(t *testing.T) {
				w := worked{layout: layoutOf(c.tpb, c.windows...), tokens: tokensOf(c.prompt), grow: grow}
				w.admit(t, c.hit, c.ends)
				if got := strings.Join(w.slices(t, c.start, c.ends), " | "); got != c.want {
					t.Errorf("slices of %s, want %s", got, c.want)
				}
			})
		}
	}
}

// worked is one example under way.
type worked struct {
	layout kvcache.Layout
	tokens []int32
	grow   bool
	m      kvcache.Manager
	hold   *kvcache.Holding
}

// admit gives the prompt its blocks, of which the index has the first hit tokens.
func (w *worked) admit(t *testing.T, hit int, ends []int) {
	t.Helper()
	var blocks []int
	for range w.layout.Groups {
		blocks = append(blocks, 40)
	}
	var err error
	if w.grow {
		w.m, err = kvcache.NewGrow(w.layout, blocks, kvcache.Options{Reuse: true, Chunk: w.layout.BlockTokens})
	} else {
		w.m, err = kvcache.NewReserve(w.layout, blocks, kvcache.Options{Reuse: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	// An earlier prompt that goes another way behind the hit.
	earlier := append(append([]int32{}, w.tokens[:hit]...), -1, -2, -3, -4)
	if w.hold = w.take(t, earlier); hit > 0 {
		w.m.Extend(w.hold, 0, len(earlier))
		w.m.Commit(w.hold, earlier)
	}
	w.m.Give(w.hold)
	if w.hold = w.take(t, w.tokens); w.hold.Cached != hit {
		t.Fatalf("%d tokens are cached, want %d", w.hold.Cached, hit)
	}
}

func (w *worked) take(t *testing.T, tokens []int32) *kvcache.Holding {
	t.Helper()
	h, ok := w.m.Admit(kvcache.Demand{Prompt: len(tokens), Tokens: len(tokens)}, tokens)
	if !ok {
		t.Fatal("no room")
	}
	return h
}

// slices computes the chunks, for a receiver that has the first start tokens, and shows what is
// copied.
func (w *worked) slices(t *testing.T, start int, ends []int) []string {
	t.Helper()
	prompt := len(w.tokens)
	s := NewSend(SendConfig{Request: "r", Layout: w.layout, PromptLen: prompt, Pipelined: true, Timeout: 1e9}, 0)
	s.Step(0, Registered{
		Peer: life("D"), PoolBlocks: pools(w.layout),
		Msg: &wire.Register{PromptLen: uint32(prompt), DstStart: uint32(start), Blocks: dstLists(w.layout, prompt)},
	})
	var out []string
	at := w.hold.Cached
	for _, end := range ends {
		if !w.m.Extend(w.hold, at, end) {
			t.Fatalf("no room for [%d,%d)", at, end)
		}
		w.m.Copied(w.hold)
		s.Step(0, ChunkStarted{})
		s.Step(0, ChunkComputed{
			Chunk:  kvcache.Chunk{Start: at, End: end, First: at == w.hold.Cached, Last: end == prompt},
			Tables: append([]kvcache.BlockTable{}, w.hold.Tables...), Aux: &wire.Aux{},
		})
		for _, o := range s.Outputs() {
			switch o := o.(type) {
			case Copy:
				out = append(out, w.show(t, o))
			case Failed:
				t.Fatal(o.Err)
			}
		}
		at = end
	}
	return out
}

// show names the logical blocks of a copy, which are the same on both sides.
func (w *worked) show(t *testing.T, c Copy) string {
	t.Helper()
	var groups []string
	for _, g := range c.Groups {
		table := w.hold.Tables[g.Group]
		first := int(g.Dst[0]) - int(dstBlock(g.Group, 0))
		for i := range g.Src {
			if g.Dst[i] != dstBlock(g.Group, first+i) || table.Block(first+i) != g.Src[i] {
				t.Errorf("group %d: %v goes to %v, and the sender's blocks are %+v", g.Group, g.Src, g.Dst, table)
			}
		}
		groups = append(groups, fmt.Sprintf("[%d,%d)", first, first+len(g.Src)))
	}
	if groups == nil {
		return "nothing"
	}
	return strings.Join(groups, "+")
}
