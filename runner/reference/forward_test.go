package reference

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// A batch that cannot be computed is refused with its reason, and nothing was written.
func TestForwardRefuses(t *testing.T) {
	r := loadModel(t, reftest.Model(reftest.ModelOptions{Arch: "gemma3", Layers: 7, Window: 8, Context: 64}), 4, kvcache.F16)
	const blocks = 16
	good := func() runner.Work {
		return runner.Work{
			Tokens: []int32{5, 6, 7}, Start: 20, Tables: sequentialTables(r, 0, blocks),
			Logits: make([]float32, r.model.Vocab),
		}
	}
	if err := r.Forward([]runner.Work{good()}); err == nil || !strings.Contains(err.Error(), "no pools") {
		t.Errorf("without pools: %v", err)
	}
	attach(t, r, blocks)
	pools := r.ranks[0].pools
	for g, pool := range pools {
		for i := range pool {
			pool[i] = byte(i + g)
		}
	}
	before := [][]byte{slices.Clone(pools[0]), slices.Clone(pools[1])}
	// Group 0 has the window and needs blocks [3,6); group 1 is full and needs [0,6).
	for _, c := range []struct {
		name   string
		change func(w *runner.Work)
		want   string
	}{
		{"no tokens", func(w *runner.Work) { w.Tokens = nil }, "no tokens"},
		{"negative token", func(w *runner.Work) { w.Tokens = []int32{-1} }, "outside the vocabulary"},
		{"token past the vocabulary", func(w *runner.Work) { w.Tokens = []int32{5, 259} }, "outside the vocabulary"},
		{"negative start", func(w *runner.Work) { w.Start = -1 }, "context"},
		{"past the context", func(w *runner.Work) { w.Start = 62 }, "context"},
		{"far past the context", func(w *runner.Work) { w.Start = math.MaxInt }, "context"},
		{"short logits", func(w *runner.Work) { w.Logits = w.Logits[1:] }, "logits"},
		{"a table missing", func(w *runner.Work) { w.Tables = w.Tables[:1] }, "1 block tables for 2"},
		{"a table too many", func(w *runner.Work) { w.Tables = append(w.Tables, w.Tables[0]) }, "3 block tables for 2"},
		{"an empty table", func(w *runner.Work) { w.Tables[1].Blocks = nil }, "group 1: block table [0,0)"},
		{"a table too short", func(w *runner.Work) { w.Tables[1].Blocks = w.Tables[1].Blocks[:5] }, "does not cover blocks [0,6)"},
		{"a full table that begins late", func(w *runner.Work) { w.Tables[1].First = 1 }, "does not cover blocks [0,6)"},
		{"a window table that begins late", func(w *runner.Work) { w.Tables[0].First = 4 }, "group 0: block table [4,20) does not cover blocks [3,6)"},
		{"a table that begins before 0", func(w *runner.Work) { w.Tables[0].First = -1 }, "does not cover"},
		{"a table far away", func(w *runner.Work) { w.Tables[0].First = math.MaxInt - 1 }, "does not cover"},
		{"a negative block", func(w *runner.Work) { w.Tables[1].Blocks[2] = -1 }, "outside the pool"},
		{"a block past the pool", func(w *runner.Work) { w.Tables[0].Blocks[5] = blocks }, "outside the pool"},
		{"a block twice in what is written", func(w *runner.Work) {
			w.Start, w.Tokens = 18, []int32{1, 2, 3, 4}
			w.Tables[0].Blocks[4] = w.Tables[0].Blocks[5]
		}, "written twice"},
	} {
		w := good()
		c.change(&w)
		other := good()
		for g := range other.Tables {
			slices.Reverse(other.Tables[g].Blocks)
		}
		err := r.Forward([]runner.Work{other, w})
		if err == nil {
			t.Errorf("%s is taken", c.name)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "work 1") {
			t.Errorf("%s: error %q does not say %q of work 1", c.name, err, c.want)
		}
		for g := range before {
			if !bytes.Equal(pools[g], before[g]) {
				t.Fatalf("%s: pool %d was written", c.name, g)
			}
		}
	}
	if err := r.Forward([]runner.Work{good(), good()}); err == nil || !strings.Contains(err.Error(), "written twice") {
		t.Errorf("two works that write one block: %v", err)
	}
	forward(t, r, good())
	if err := r.Forward(nil); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	r.Close()
	if err := r.Forward([]runner.Work{good()}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestAttachRefuses(t *testing.T) {
	r := loadTiny(t, kvcache.F16)
	size := func(g int) int { return r.Layout().BlockBytes(g) }
	for _, pools := range [][][]byte{
		nil,
		{make([]byte, size(0))},
		{make([]byte, size(0)), nil},
		{make([]byte, size(0)-1), make([]byte, size(1))},
		{make([]byte, size(0)), make([]byte, size(1)+1)},
	} {
		if r.Attach(pools) == nil {
			t.Errorf("%d pools are taken", len(pools))
		}
	}
}

// A pass in steady state makes no garbage worth speaking of.
func TestForwardAllocates(t *testing.T) {
	for _, p := range []kvcache.Parallel{one, {Tensor: 4, Pipeline: 2}} {
		r := loadCut(t, models.Tiny, Options{BlockTokens: 16, KV: kvcache.F16, Parallel: p})
		tables := newMemory(t, r, p, 16).tables()
		batch := []runner.Work{{Tokens: longCase(t).IDs[:40], Tables: tables, Logits: make([]float32, r.model.Vocab)}}
		forward(t, r, batch...)
		if n := testing.AllocsPerRun(5, func() { forward(t, r, batch...) }); n > 2 {
			t.Errorf("%+v: %g allocations a pass", p, n)
		}
	}
}
