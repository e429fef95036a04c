//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/reference"
	"kvferry/runner/reference/reftest"
)

// windowModel is a small model with random weights, whose layers but 5 and 11 see 40 tokens. With a few
// sequences llama.cpp keeps fewer cells for those than for the whole context.
func windowModel(t testing.TB) string {
	return random(t, reftest.ModelOptions{Arch: "gemma3", Layers: 13, KVHeads: 2, HeadDim: 32, Window: 40, Context: 2048})
}

// TestWindowLayers: the layers of each group are found, and are those that the reference runner knows
// of the architecture.
func TestWindowLayers(t *testing.T) {
	path := windowModel(t)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reference.Load("m", file, reference.Options{BlockTokens: 16, KV: kvcache.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	want := ref.Layout()
	slices.SortFunc(want.Groups, func(a, b kvcache.LayerGroup) int { return a.Window - b.Window })
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32, kvcache.Q8_0} {
		want.DType = kv
		if got := opened(t, path, Options{KV: kv}).Layout(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: layout is %v, want %v", kv, got, want)
		}
	}
}

// TestAlike: layers whose rows are the same come before all others, or the states do not show an order.
func TestAlike(t *testing.T) {
	parts := func(changed ...int) part {
		p, err := small.parts(both(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range changed {
			p[1].at(layer, 1, 0)[3]++
		}
		return p[1]
	}
	for want, changed := range map[int][]int{3: {}, 2: {2}, 0: {0, 1, 2}} {
		if n, err := alike(parts(changed...), parts()); n != want || err != nil {
			t.Errorf("%d of 3 layers are alike where %v are not, %v", n, changed, err)
		}
	}
	if n, err := alike(parts(1), parts()); err == nil {
		t.Errorf("%d layers are alike where the middle one is not", n)
	}
	p, err := small.parts(both(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := alike(p[1], parts()); err == nil {
		t.Errorf("%d layers are alike without the position", n)
	}
}

// prefill computes a prompt in chunks, as an engine does whose tables lose the blocks that leave the
// window, and gives the tables of the end. What is lost is overwritten.
func prefill(t *testing.T, r *Runner, tokens []int32, tables []kvcache.BlockTable, chunk int) []kvcache.BlockTable {
	t.Helper()
	now := slices.Clone(tables)
	for at := 0; at < len(tokens); at += chunk {
		end := min(at+chunk, len(tokens))
		wantHeld(t, r, at, now)
		pass(t, r, "a", tokens[at:end], at, now)
		for g, group := range r.Layout().Groups {
			stale := kvcache.StaleEnd(end, group.Window, r.Layout().BlockTokens)
			lose(r, g, tables[g].Blocks[:stale])
			now[g] = kvcache.BlockTable{First: stale, Blocks: tables[g].Blocks[stale:]}
		}
	}
	return now
}

// lose overwrites blocks with what is no number.
func lose(r *Runner, g int, blocks []kvcache.BlockID) {
	size := r.Layout().BlockBytes(g)
	for _, b := range blocks {
		for i := range size {
			r.rows.pools[g][int(b)*size+i] = 0xff
		}
	}
}

// wantHeld fails the test if a runner would have to import the sequence "a".
func wantHeld(t *testing.T, r *Runner, start int, tables []kvcache.BlockTable) {
	t.Helper()
	if w := (runner.Work{Sequence: "a", Start: start, Tables: tables}); start > 0 && !r.holds(&w) {
		t.Fatalf("the sequence is not held at %d", start)
	}
}

func likeliest(logits []float32) int32 {
	best := 0
	for v := range logits {
		if logits[v] > logits[best] {
			best = v
		}
	}
	return int32(best)
}

func apart(a, b []float32) float32 {
	worst := float32(0)
	for v := range a {
		worst = max(worst, a[v]-b[v], b[v]-a[v])
	}
	return worst
}

// windowImport computes a prompt in chunks on p, carries the blocks that its decoding needs to d, and
// decodes some tokens on both: p has never imported anything. It gives the largest difference of two
// logits; the likeliest tokens must be the same.
func windowImport(t *testing.T, p, d *Runner, prompt []int32, chunk, answer int) float32 {
	t.Helper()
	n, groups := p.Layout().TotalBlocks(len(prompt)+answer), len(p.Layout().Groups)
	if err := p.thread.do(func() error { p.dropAll(); return nil }); err != nil { // it begins in the first cells
		t.Fatal(err)
	}
	pt, dt := prefill(t, p, prompt, tables(groups, 0, n), chunk), tables(groups, 3, n)
	for g := range dt {
		lose(d, g, dt[g].Blocks)
		dt[g] = kvcache.BlockTable{First: pt[g].First, Blocks: dt[g].Blocks[pt[g].First:]}
	}
	carry(p, d, pt, dt)
	pass(t, d, "other", prompt[:1], 0, tables(groups, 3+n, 1)) // it is dropped for the import
	worst, next := float32(0), prompt[0]
	for at := len(prompt); at < len(prompt)+answer; at++ {
		wantHeld(t, p, at, pt)
		want, got := pass(t, p, "a", []int32{next}, at, pt), pass(t, d, "a", []int32{next}, at, dt)
		next = likeliest(want)
		if likeliest(got) != next {
			t.Fatalf("%d tokens in chunks of %d: token %d, want %d", at, chunk, likeliest(got), next)
		}
		worst = max(worst, apart(got, want))
	}
	return worst
}

// TestWindowImport: prompts below, at and beyond the window, in chunks that are shorter than it, as
// long, and longer than what llama.cpp computes at once, go on exactly as where they were computed;
// what is no longer seen need not be there. Where llama.cpp has taken the cells of what left the window
// for later positions, an import has them in another order, so that sums may round differently.
//
// req: SERVE-05 PIPE-08
func TestWindowImport(t *testing.T) {
	path := windowModel(t)
	p, d := opened(t, path, Options{Sequences: 1}), opened(t, path, Options{Sequences: 1})
	const cells = 768 // of window layers, for one sequence
	for _, c := range []struct{ tokens, chunk int }{
		{10, 7}, {38, 38}, {39, 16}, {40, 33}, {41, 40}, {64, 64}, {200, 33}, {200, 150}, {700, 600}, {760, 64}, {1500, 600},
	} {
		const answer = 20
		worst := windowImport(t, p, d, tokensOf(c.tokens, 1), c.chunk, answer)
		if c.tokens+answer <= cells && worst > 0 || worst > rounding {
			t.Errorf("%d tokens in chunks of %d: logits differ by %g", c.tokens, c.chunk, worst)
		}
	}
	for _, kv := range []kvcache.DType{kvcache.F32, kvcache.Q8_0} {
		opt := Options{Sequences: 1, KV: kv}
		if worst := windowImport(t, opened(t, path, opt), opened(t, path, opt), tokensOf(200, 2), 64, 10); worst > 0 {
			t.Errorf("%s: logits differ by %g", kv, worst)
		}
	}
}

// TestWindowCells: a sequence that is longer than llama.cpp's cells for window layers goes on in the
// cells of what has left the window.
func TestWindowCells(t *testing.T) {
	r := opened(t, windowModel(t), Options{Sequences: 1})
	pass(t, r, "a", tokensOf(780, 1), 0, tables(2, 0, 49))
	var order []int
	if err := r.thread.do(func() error {
		state := make([]byte, llama.StateSeqGetSizeExt(r.ctx, r.held["a"].id, 0))
		llama.StateSeqGetDataExt(r.ctx, state, r.held["a"].id, 0)
		parts, err := r.rows.shape.parts(state)
		if err == nil {
			for cell := range parts[1].cells {
				order = append(order, parts[1].position(cell))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(order) != 40 || order[0] != 768 || order[39] != 767 {
		t.Errorf("the cells of the window have the positions %d", order)
	}
}

// TestWindowBlocksAreWhole: all blocks of a chunk that is longer than the window are written, those too
// that only a prompt with the same beginning can still need.
func TestWindowBlocksAreWhole(t *testing.T) {
	r := opened(t, windowModel(t), Options{})
	prompt := tokensOf(1000, 1)
	all := tables(2, 0, 63)
	for g := range all {
		lose(r, g, all[g].Blocks)
	}
	pass(t, r, "", prompt, 0, all)
	for _, n := range []int{17, 100, 500, 520, 800} {
		short := tables(2, 64, 63)
		pass(t, r, "", prompt[:n], 0, short)
		want := pass(t, r, "", prompt[n:n+1], n, short)
		if got := pass(t, r, "", prompt[n:n+1], n, all); !(apart(got, want) <= rounding) {
			t.Errorf("after the first %d tokens: logits differ by %g", n, apart(got, want))
		}
	}
}

// TestWindowSequences: sequences that are together longer than the cells of window layers are computed
// together, and each gets what it gets alone.
func TestWindowSequences(t *testing.T) {
	path := windowModel(t)
	r, alone := opened(t, path, Options{Sequences: 3}), opened(t, path, Options{Sequences: 1})
	const prompt, answer = 600, 40
	works, got := make([]runner.Work, 3), make([][]float32, 3)
	for i := range works {
		got[i] = make([]float32, r.Model().Vocab)
		works[i] = runner.Work{Sequence: string(rune('a' + i)), Tokens: tokensOf(prompt, i), Tables: tables(2, i*41, 41)}
	}
	for at := prompt; at < prompt+answer; at++ {
		if err := r.Forward(works); err != nil {
			t.Fatal(err)
		}
		for i := range works {
			works[i].Tokens, works[i].Start, works[i].Logits = tokensOf(1, at+i), at, got[i]
		}
	}
	if len(r.held) != 3 {
		t.Errorf("%d sequences are held", len(r.held))
	}
	for i := range works {
		own := tables(2, 0, 41)
		pass(t, alone, "x", tokensOf(prompt, i), 0, own)
		var want []float32
		for at := prompt; at < prompt+answer-1; at++ {
			want = pass(t, alone, "x", tokensOf(1, at+i), at, own)
		}
		if worst := apart(got[i], want); worst > rounding {
			t.Errorf("sequence %d: logits differ by %g from those alone", i, worst)
		}
	}
}

// TestWindowTables: a window group's table may begin where the first token's window does, and not
// later; each group's table is judged.
func TestWindowTables(t *testing.T) {
	r := opened(t, windowModel(t), Options{})
	tb := tables(2, 0, 13)
	pass(t, r, "a", tokensOf(200, 1), 0, tb)
	forward := func(tables []kvcache.BlockTable) error {
		return r.Forward([]runner.Work{{Sequence: "a", Tokens: []int32{1}, Start: 200, Tables: tables}})
	}
	behind := func(t kvcache.BlockTable, n int) kvcache.BlockTable {
		return kvcache.BlockTable{First: n, Blocks: t.Blocks[n:]}
	}
	for want, tables := range map[string][]kvcache.BlockTable{
		"1 block tables for 2 layer groups":                                    tb[:1],
		"layer group 1: block table [11,13) does not cover blocks [10,13)":     {tb[0], behind(tb[1], 11)},
		"layer group 0: block table [1,13) does not cover blocks [0,13)":       {behind(tb[0], 1), tb[1]},
		"layer group 1: logical block 10 is block 4096, outside the pool of 2": {tb[0], {First: 10, Blocks: []kvcache.BlockID{4096, 1, 0}}},
	} {
		if err := forward(tables); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if err := forward([]kvcache.BlockTable{tb[0], behind(tb[1], 10)}); err != nil {
		t.Error(err)
	}
	if err := r.Attach([][]byte{make([]byte, r.Layout().BlockBytes(0))}); err == nil {
		t.Error("one pool is taken for two groups")
	}
}

// TestRealWindowModel is TestWindowImport with Gemma 3 270M, whose window is 512 tokens.
//
// req: SERVE-05
func TestRealWindowModel(t *testing.T) {
	const variable = "KVFERRY_LLAMA_WINDOW_MODEL"
	path := os.Getenv(variable)
	if path == "" || testing.Short() {
		t.Skip(variable + " is not set, or -short is: testdata/fetch-window-model.sh fetches the model (253 MB), and says how to set it")
	}
	opt := Options{Sequences: 1, Context: 2048}
	p, d := opened(t, path, opt), opened(t, path, opt)
	if g := p.Layout().Groups; len(g) != 2 || g[1].Window != 512 || len(g[0].Layers)+len(g[1].Layers) != 18 {
		t.Errorf("layer groups are %v", g)
	}
	text := p.Tokenizer().Encode(strings.Repeat("The ferry left the harbour at noon, and nobody on the quay looked up from the crates of oranges "+
		"that had come in the night before. In the wheelhouse the captain read his letter again, folded it, and ", 40))
	for _, c := range []struct{ tokens, chunk int }{{100, 64}, {511, 256}, {512, 300}, {513, 512}, {900, 200}, {1300, 256}, {1520, 700}} {
		worst := windowImport(t, p, d, text[:c.tokens], c.chunk, 24)
		t.Logf("%d tokens in chunks of %d: the same 24 tokens, logits differ by up to %.2g", c.tokens, c.chunk, worst)
	}
}
