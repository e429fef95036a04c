package transfer

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/wire"
)

// TestPlanWindowExample: of 16 blocks the window needs [12,16), and of the chunk [11,13)
// block 12 alone is sent, from either manager's pages to the page that the receiver named.
//
// req: PIPE-05
// req: PIPE-06
// req: PIPE-07
// req: PIPE-08
func TestPlanWindowExample(t *testing.T) {
	l := layoutOf(4, 17)
	dst := Destination{Blocks: [][]kvcache.BlockID{{212, 213, 214, 215}}}
	want := []GroupCopy{{Group: 0, Src: []kvcache.BlockID{12}, Dst: []kvcache.BlockID{212}}}
	grow := kvcache.BlockTable{First: 9, Blocks: []kvcache.BlockID{9, 10, 11, 12}}
	for name, table := range map[string]kvcache.BlockTable{"reserve": srcTables(l, 64)[0], "grow": grow} {
		got, err := Plan(l, 64, kvcache.Span{Start: 11, End: 13}, []kvcache.BlockTable{table}, dst)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v: want %+v", name, got, err, want)
		}
	}
}

// TestPlan goes through what the receiver's list and start do to a slice of blocks [2,5) of 8.
//
// req: PIPE-05
// req: PIPE-09
// req: PIPE-10
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		lists [2]int // how many blocks each group's list has
		start int
		want  string
	}{
		{"a list of all of it", [2]int{8, 8}, 0, "[2 3 4]->[52 53 54] [104]->[154]"},
		{"the window's list", [2]int{8, 4}, 0, "[2 3 4]->[52 53 54] [104]->[154]"},
		{"lists that begin inside the slice", [2]int{5, 3}, 0, "[3 4]->[53 54]"},
		{"lists that do not reach it", [2]int{3, 1}, 0, ""},
		{"lists of nothing", [2]int{0, 0}, 0, ""},
		{"a start inside a block takes the whole block", [2]int{8, 8}, 15, "[3 4]->[53 54] [104]->[154]"},
		{"a start at a block's begin", [2]int{8, 8}, 16, "[4]->[54] [104]->[154]"},
		{"a slice wholly inside what the receiver has", [2]int{8, 8}, 20, ""},
		{"a receiver that has all", [2]int{8, 8}, 31, ""},
	} {
		l := layoutOf(4, 0, 14) // the window needs blocks from 4 on
		dst := Destination{Start: c.start}
		for g, n := range c.lists {
			var list []kvcache.BlockID
			for b := 8 - n; b < 8; b++ {
				list = append(list, dstBlock(g, b))
			}
			dst.Blocks = append(dst.Blocks, list)
		}
		plan, err := Plan(l, 31, kvcache.Span{Start: 2, End: 5}, srcTables(l, 31), dst)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		bytes := uint64(0)
		for _, g := range plan {
			got = append(got, fmt.Sprintf("%v->%v", g.Src, g.Dst))
			bytes += 16 * uint64(len(g.Src))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if n := PlanBytes(l, plan); n != bytes {
			t.Errorf("%s: %d bytes, want %d", c.name, n, bytes)
		}
	}
}

// TestPlanNamesWhatIsMissing: a block that is due and not resident on the sender would be
// missing on the receiver, so it is an error and never a shorter plan.
//
// req: PIPE-05
func TestPlanNamesWhatIsMissing(t *testing.T) {
	l := layoutOf(4, 0)
	dst := Destination{Blocks: [][]kvcache.BlockID{{50, 51, 52, 53}}}
	for name, table := range map[string]kvcache.BlockTable{
		"evicted":      {First: 1, Blocks: []kvcache.BlockID{1, 2, 3}},
		"not computed": {First: 0, Blocks: []kvcache.BlockID{0, 1}},
	} {
		plan, err := Plan(l, 16, kvcache.Span{Start: 0, End: 3}, []kvcache.BlockTable{table}, dst)
		if err == nil || !strings.Contains(err.Error(), "layer group 0: blocks [0,3) are due") {
			t.Errorf("%s: %v, %v", name, plan, err)
		}
	}
}

// TestSendFailsWhereThePlanDoes: such a request fails, with the receiver told, and nothing of
// that slice is sent.
//
// req: PIPE-18
func TestSendFailsWhereThePlanDoes(t *testing.T) {
	l := layoutOf(4, 0)
	s := NewSend(SendConfig{Request: "r", Layout: l, PromptLen: 8, Pipelined: true, Timeout: 1e9}, 0)
	s.Step(0, Registered{Peer: life("D"), Msg: &wire.Register{PromptLen: 8, Blocks: dstLists(l, 8)}, PoolBlocks: pools(l)})
	s.Step(0, ChunkStarted{})
	s.Step(0, ChunkComputed{Chunk: kvcache.Chunk{End: 4, First: true}, Tables: []kvcache.BlockTable{{First: 1}}})
	got := strings.Split(showOutputs(s.Outputs()), "\n")
	if len(got) != 6 || !strings.HasPrefix(got[1], "notify D: result(task 0 epoch 0 failed: layer group 0") ||
		!strings.HasPrefix(got[2], "failed") || got[4] != "release" {
		t.Errorf("%q", got)
	}
}

// TestOneChunkIsMonolithic: a prompt that fits one chunk is addressed like a monolithic
// transfer, to the last byte of the notice, after a prefix hit and beside a receiver's too.
//
// req: PIPE-11
// req: PIPE-26
func TestOneChunkIsMonolithic(t *testing.T) {
	for _, c := range []struct{ prompt, hit, start int }{{32, 0, 0}, {32, 12, 0}, {31, 12, 9}, {1, 0, 0}, {31, 0, 31}} {
		l := layoutOf(4, 0, 9)
		var copies [2]Copy
		for i, pipelined := range []bool{false, true} {
			s := NewSend(SendConfig{Request: "r", Layout: l, PromptLen: c.prompt, Pipelined: pipelined, Timeout: 1e9}, 0)
			s.Step(0, Registered{
				Peer: life("D"), PoolBlocks: pools(l),
				Msg: &wire.Register{PromptLen: uint32(c.prompt), DstStart: uint32(c.start), Blocks: dstLists(l, c.prompt)},
			})
			s.Step(0, ChunkStarted{})
			s.Step(0, ChunkComputed{
				Chunk:  kvcache.Chunk{Start: c.hit, End: c.prompt, First: true, Last: true},
				Tables: srcTables(l, c.prompt), Aux: &wire.Aux{First: wire.TokenLogprob{Token: 42}},
			})
			for _, o := range s.Outputs() {
				if o, ok := o.(Copy); ok {
					copies[i] = o
				}
			}
		}
		if copies[0].Notice == nil || !reflect.DeepEqual(copies[0], copies[1]) {
			t.Errorf("%+v: monolithic %s, one chunk %s", c, showOutput(copies[0]), showOutput(copies[1]))
		}
	}
}
