package transfer

import (
	"testing"

	"kvferry/kvcache"
	"kvferry/wire"
)

// flying is a session with one slice in flight.
func flying() *Send {
	l := layoutOf(4, 0)
	s := NewSend(SendConfig{Request: "r", Layout: l, PromptLen: 4, Timeout: 12}, 0)
	s.Step(0, Registered{Peer: life("D"), PoolBlocks: pools(l), Msg: &wire.Register{
		Request: "r", Epoch: 7, PromptLen: 4, Blocks: dstLists(l, 4),
	}})
	s.Step(0, ChunkStarted{})
	s.Step(0, ChunkComputed{
		Chunk: kvcache.Chunk{End: 4, First: true, Last: true}, Tables: srcTables(l, 4), Aux: &wire.Aux{},
	})
	return s
}

// What only a broken owner does panics, before it frees or counts anything: a copy that ends
// twice, or that nobody began, and blocks in use that are taken back.
//
// req: PIPE-17
func TestMisusePanics(t *testing.T) {
	const twice, inUse = "transfer: a copy ended twice", "transfer: blocks in use were taken back"
	for name, c := range map[string]struct {
		want   string
		misuse func(*Send)
	}{
		"a copy ends twice": {twice, func(s *Send) {
			s.Step(1, Copied{})
			s.Step(1, Copied{})
		}},
		"a copy ends that never began": {twice, func(s *Send) {
			*s = *NewSend(SendConfig{Request: "r", Layout: s.cfg.Layout, PromptLen: 8, Pipelined: true, Timeout: 12}, 0)
			s.Step(0, ChunkStarted{})
			s.Step(0, ChunkComputed{Chunk: kvcache.Chunk{End: 4, First: true}, Tables: srcTables(s.cfg.Layout, 8)})
			s.Step(0, ChunkStarted{})
			s.Step(1, Copied{})
		}},
		"blocks of a copy are taken back": {inUse, func(s *Send) { s.Step(1, TakenBack{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %q", got, c.want)
				}
			}()
			c.misuse(flying())
		})
	}
}

// A registration without a block for a recurrent state gets none, and no copy whose two lists
// differ in length.
//
// req: PIPE-31
func TestPlanWithoutStateBlock(t *testing.T) {
	l := layoutOf(4, 0, 0)
	l.Groups[1].StateBytes = 8
	dst := Destination{Blocks: [][]kvcache.BlockID{{50}, nil}}
	plan, err := Plan(l, 4, kvcache.Span{End: 1}, srcTables(l, 4), dst)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range plan {
		if len(c.Src) != len(c.Dst) || c.Group == 1 {
			t.Errorf("group %d: %v to %v", c.Group, c.Src, c.Dst)
		}
	}
}
