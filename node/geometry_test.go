package node_test

import (
	"fmt"
	"reflect"
	"testing"

	"kvferry/agent"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/wire"
)

// spied is a cluster of one pair whose agents are watched.
type spied struct {
	*e2etest.Cluster
	p, d spy
}

func startSpied(t *testing.T, cfg node.EngineConfig) *spied {
	t.Helper()
	s := &spied{}
	s.Cluster = e2etest.Start(t, e2etest.Options{
		Engine:    cfg,
		OnPrefill: func(_ int, cfg *node.EngineConfig) { s.p.on(cfg) },
		OnDecode:  func(_ int, cfg *node.EngineConfig) { s.d.on(cfg) },
	})
	return s
}

// ask has one request served and waits until both engines are idle.
func (s *spied) ask(t *testing.T, r e2etest.Request) {
	t.Helper()
	if _, err := s.Complete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.AwaitIdle(t)
}

// slicesOf counts, by the ledger's words, the slices of a prompt that is cut every chunk
// tokens: a chunk that completes no block sends nothing, the last always sends.
func slicesOf(prompt, chunk, tpb int) int {
	n := 0
	for start := 0; start < prompt; start += chunk {
		end := min(start+chunk, prompt)
		if end == prompt || end/tpb > start/tpb {
			n++
		}
	}
	return n
}

// TestEachBlockTravelsOnce watches both agents: whatever the chunks, the decode engine
// registers one receive, for exactly the prompt's blocks of the full layers and the last
// window of the others, and each of these is written once, although the answer needs many
// more blocks than the prompt.
//
// req: PIPE-02, PIPE-03, PIPE-04, PIPE-08, PIPE-10, PIPE-26
func TestEachBlockTravelsOnce(t *testing.T) {
	const window, tpb = 40, 16
	model := windowed(t)
	for _, chunk := range []int{7, 48, 256} {
		for _, pipelined := range []bool{true, false} {
			cfg := mode{1, pipelined, chunk, "f16"}.config()
			cfg.Model = model
			t.Run(mode{1, pipelined, chunk, "f16"}.String(), func(t *testing.T) {
				s := startSpied(t, cfg)
				for _, n := range []int{1, 15, 16, 17, 40, 55, 56, 300} {
					s.ask(t, e2etest.Request{Prompt: tokens(n, 2)}.With(greedy).With(map[string]any{
						"max_tokens": 3 * tpb, "ignore_eos": true,
					}))
					total := (n + tpb - 1) / tpb
					stale := max(0, (n+1-window)/tpb)
					s.checkTravel(t, n, []int{total - stale, total}, pick(pipelined, slicesOf(n, chunk, tpb), 1))
				}
			})
		}
	}
}

// checkTravel compares what the agents were asked for with the blocks that are due of each
// layer group and the number of slices.
func (s *spied) checkTravel(t *testing.T, prompt int, blocks []int, slices int) {
	t.Helper()
	_, sent, grants := s.d.saw()
	writes, _, _ := s.p.saw()
	reg := oneRegister(t, sent)
	if int(reg.PromptLen) != prompt || len(reg.Blocks) != len(blocks) {
		t.Fatalf("prompt of %d: registered as %d tokens, %d lists", prompt, reg.PromptLen, len(reg.Blocks))
	}
	due := 0
	for g, want := range blocks {
		due += want
		if len(reg.Blocks[g]) != want {
			t.Errorf("prompt of %d: %d blocks of layer group %d are registered, want %d", prompt, len(reg.Blocks[g]), g, want)
		}
	}
	if len(grants) != 1 || len(grants[0]) != due {
		t.Errorf("prompt of %d: grants %v, want one of %d blocks", prompt, grants, due)
	}
	if len(writes) != slices {
		t.Errorf("prompt of %d: %d slices were written, want %d", prompt, len(writes), slices)
	}
	if err := eachOnce(writes, due); err != nil {
		t.Errorf("prompt of %d: %v", prompt, err)
	}
}

// eachOnce checks that the writes have so many blocks in all, none of them twice.
func eachOnce(writes []agent.Transfer, want int) error {
	from, to := map[int32]bool{}, map[int32]bool{}
	n := 0
	for _, w := range writes {
		for i := range w.LocalIdx {
			n++
			from[w.LocalIdx[i]], to[w.RemoteIdx[i]] = true, true
		}
	}
	if n != want || len(from) != n || len(to) != n {
		return fmt.Errorf("%d blocks were written, from %d and to %d; want %d", n, len(from), len(to), want)
	}
	return nil
}

// TestOneChunkIsMonolithic: a prompt that fits one chunk is addressed alike in both modes,
// block for block, notice and all.
//
// req: PIPE-11
func TestOneChunkIsMonolithic(t *testing.T) {
	model := windowed(t)
	seen := map[bool][]agent.Transfer{}
	for _, pipelined := range []bool{true, false} {
		cfg := mode{1, pipelined, 256, "f16"}.config()
		cfg.Model = model
		s := startSpied(t, cfg)
		for _, n := range []int{1, 16, 100, 256} {
			s.ask(t, e2etest.Request{Prompt: tokens(n, 3)}.With(greedy))
		}
		seen[pipelined], _, _ = s.p.saw()
	}
	if len(seen[true]) != 4 || len(seen[false]) != 4 {
		t.Fatalf("%d and %d slices for 4 prompts", len(seen[true]), len(seen[false]))
	}
	for i, a := range seen[true] {
		b := seen[false][i]
		if !reflect.DeepEqual(a.LocalIdx, b.LocalIdx) || !reflect.DeepEqual(a.RemoteIdx, b.RemoteIdx) ||
			!reflect.DeepEqual(a.Local, b.Local) || !reflect.DeepEqual(a.Remote, b.Remote) {
			t.Errorf("prompt %d is written from %v to %v pipelined, and from %v to %v monolithic",
				i, a.LocalIdx, a.RemoteIdx, b.LocalIdx, b.RemoteIdx)
		}
		if x, y := result(t, a), result(t, b); !reflect.DeepEqual(x, y) {
			t.Errorf("prompt %d ends with %+v pipelined, and %+v monolithic", i, x, y)
		}
	}
}

// result is a write's notice without the request's ID, which is random.
func result(t *testing.T, w agent.Transfer) wire.Result {
	t.Helper()
	msg, err := wire.DecodeMessage(w.Notice)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := msg.(*wire.Result)
	if !ok {
		t.Fatalf("a write tells of %#v", msg)
	}
	out := *r
	out.Request = ""
	return out
}
