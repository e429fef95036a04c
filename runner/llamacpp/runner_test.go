//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// needLibrary skips a test where llama.cpp is not there, except in CI, where it must be.
func needLibrary(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) != "" {
		return
	}
	const how = Variable + " is not set: ../reference/testdata/fetch-llama.sh fetches llama.cpp, and says how to set it"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
}

// random is a small model with random weights.
func random(t testing.TB, o reftest.ModelOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := os.WriteFile(path, reftest.Model(o), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func llamaModel(t testing.TB) string {
	return random(t, reftest.ModelOptions{Layers: 3, KVHeads: 2, Context: 1024})
}

// opened loads a model and gives it blocks for its context and one more.
func opened(t testing.TB, path string, opt Options) *Runner {
	t.Helper()
	needLibrary(t)
	opt.BlockTokens = 16
	if opt.KV == 0 {
		opt.KV = kvcache.F16
	}
	r, err := Load("m", path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	blocks := 2 * r.Layout().TotalBlocks(r.Model().Context)
	var pools [][]byte
	for g := range r.Layout().Groups {
		pools = append(pools, make([]byte, blocks*r.Layout().BlockBytes(g)))
	}
	if err := r.Attach(pools); err != nil {
		t.Fatal(err)
	}
	return r
}

// table is n blocks from the first on, backwards, of a model with one layer group.
func table(first, n int) []kvcache.BlockTable { return tables(1, first, n) }

// tables are those of some layer groups.
func tables(groups, first, n int) []kvcache.BlockTable {
	out := make([]kvcache.BlockTable, groups)
	for g := range out {
		for i := range n {
			out[g].Blocks = append(out[g].Blocks, kvcache.BlockID(first+n-1-i))
		}
	}
	return out
}

func tokensOf(n, seed int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32((i*i*7 + i*13 + seed) % 250)
	}
	return out
}

// pass runs one work and gives its logits.
func pass(t testing.TB, r *Runner, name string, tokens []int32, start int, tables []kvcache.BlockTable) []float32 {
	t.Helper()
	logits := make([]float32, r.Model().Vocab)
	if err := r.Forward([]runner.Work{{Sequence: name, Tokens: tokens, Start: start, Tables: tables, Logits: logits}}); err != nil {
		t.Fatal(err)
	}
	return logits
}

// TestImportIsExact: a prompt is computed in chunks of odd sizes on one runner, its blocks are
// carried to another one, and there the logits of the tokens that follow are bit-identical to
// those of the first, which goes on.
//
// req: SERVE-05
func TestImportIsExact(t *testing.T) {
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32, kvcache.Q8_0} {
		t.Run(kv.String(), func(t *testing.T) {
			path := random(t, reftest.ModelOptions{Layers: 3, KVHeads: 2, HeadDim: 32, Context: 1024})
			importIsExact(t, opened(t, path, Options{KV: kv}), opened(t, path, Options{KV: kv}), tokensOf(230, 1), 200)
		})
	}
}

// TestRealModel is the same with SmolLM2. It also says how far apart the logits of one token are
// where it is computed alone and as the last of its prompt, without any transfer: what an engine
// that computes it again can differ by. (Nothing up to 63 tokens; from 64 on llama.cpp's attention
// takes another path for prompts.)
//
// req: SERVE-05
func TestRealModel(t *testing.T) {
	if testing.Short() {
		t.Skip("a real model is slow")
	}
	const variable = "KVFERRY_LLAMA_MODEL"
	path := os.Getenv(variable)
	if path == "" {
		const how = variable + " is not set: testdata/fetch-model.sh fetches the model, and says how to set it"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.Q8_0} {
		t.Run(kv.String(), func(t *testing.T) { realModel(t, path, kv) })
	}
}

func realModel(t *testing.T, path string, kv kvcache.DType) {
	p, d := opened(t, path, Options{Context: 512, KV: kv}), opened(t, path, Options{Context: 512, KV: kv})
	tokens := p.Tokenizer().Encode(strings.Repeat("The ferry left the harbour at noon, and nobody on the quay looked up from the crates of oranges "+
		"that had come in the night before. In the wheelhouse the captain read his letter again, folded it, and ", 3))
	importIsExact(t, p, d, tokens, len(tokens)-8)
	tables := table(40, p.Layout().TotalBlocks(len(tokens)))
	last := len(tokens) - 1
	together := pass(t, p, "", tokens, 0, tables)
	alone := pass(t, p, "", tokens[last:], last, tables)
	worst := float32(0)
	for v := range alone {
		worst = max(worst, alone[v]-together[v], together[v]-alone[v])
	}
	t.Logf("%d tokens: logits after the last one alone and in its prompt differ by up to %.2g", len(tokens), worst)
}

func importIsExact(t *testing.T, p, d *Runner, tokens []int32, prompt int) {
	t.Helper()
	n := p.Layout().TotalBlocks(len(tokens))
	pt, dt := table(0, n), table(3, n)
	for at, size := 0, 1; at < prompt; size = size*2 + 3 {
		end := min(at+size, prompt)
		pass(t, p, "a", tokens[at:end], at, pt)
		at = end
	}
	carry(p, d, pt, dt)
	pass(t, d, "other", tokensOf(40, 9), 0, table(3+n, 3)) // it is dropped for the import
	for at := prompt; at < len(tokens); at++ {
		want := pass(t, p, "a", tokens[at:at+1], at, pt)
		if got := pass(t, d, "a", tokens[at:at+1], at, dt); !slices.Equal(got, want) {
			t.Fatalf("the logits at %d differ", at)
		}
	}
	if !slices.Equal(p.rows.assemble(nil, pt, len(tokens)), d.rows.assemble(nil, dt, len(tokens))) {
		t.Error("the blocks differ at the end")
	}
}

// carry copies blocks from one runner's pools to another's, as far as both tables have them.
func carry(from, to *Runner, a, b []kvcache.BlockTable) {
	for g := range a {
		size := from.Layout().BlockBytes(g)
		for i := max(a[g].First, b[g].First); i < a[g].End(); i++ {
			copy(to.rows.pools[g][int(b[g].Block(i))*size:][:size], from.rows.pools[g][int(a[g].Block(i))*size:])
		}
	}
}

// TestQuantizedHeadDim: a model whose heads are no whole number of what q8_0 stores together is
// refused, and the type is named.
func TestQuantizedHeadDim(t *testing.T) {
	needLibrary(t)
	path := random(t, reftest.ModelOptions{Heads: 4, KVHeads: 4, HeadDim: 16})
	_, err := Load("m", path, Options{BlockTokens: 16, KV: kvcache.Q8_0})
	if err == nil || !strings.Contains(err.Error(), "q8_0") {
		t.Fatalf("16 values a head: %v", err)
	}
}

// TestBlocksAreTheTruth: a name that comes back with other blocks behind it gets what is in the
// blocks, even if as many tokens were computed under it.
func TestBlocksAreTheTruth(t *testing.T) {
	r := opened(t, llamaModel(t), Options{})
	a, b := tokensOf(50, 1), tokensOf(50, 2)
	pass(t, r, "b", b, 0, table(4, 4))
	want := pass(t, r, "b", b[:1], 50, table(4, 4))
	pass(t, r, "a", a, 0, table(0, 4))
	if got := pass(t, r, "a", b[:1], 50, table(4, 4)); !slices.Equal(got, want) {
		t.Error("the logits are those of what the name stood for before")
	}
	// Shorter than what is held: the request began again behind a prefix.
	if got := pass(t, r, "a", b[:1], 50, table(4, 4)); !slices.Equal(got, want) {
		t.Error("the same position again has other logits")
	}
}

// TestHoldsTheLastPass: llama.cpp keeps the sequences of the last pass and no others.
func TestHoldsTheLastPass(t *testing.T) {
	r := opened(t, llamaModel(t), Options{Sequences: 3})
	for _, name := range []string{"a", "b", "c", "d", ""} {
		pass(t, r, name, tokensOf(20, 1), 0, table(0, 2))
		if len(r.held) != 1 || len(r.free) != 2 {
			t.Fatalf("after %q %d sequences are held and %d are free", name, len(r.held), len(r.free))
		}
	}
}

// TestLeftOut: a sequence that is not in a pass is dropped even if others go on.
func TestLeftOut(t *testing.T) {
	r := opened(t, llamaModel(t), Options{Context: 512, Sequences: 3})
	works := []runner.Work{
		{Sequence: "a", Tokens: tokensOf(20, 1), Tables: table(0, 2)},
		{Sequence: "b", Tokens: tokensOf(20, 2), Tables: table(2, 2)},
	}
	if err := r.Forward(works); err != nil {
		t.Fatal(err)
	}
	id := r.held["a"].id
	pass(t, r, "a", []int32{1}, 20, table(0, 2))
	if h := r.held["a"]; len(r.held) != 1 || len(r.free) != 2 || h == nil || h.id != id || h.tokens != 21 {
		t.Errorf("held %v, free %v; a was sequence %d", r.held, r.free, id)
	}
}

// rounding is what logits of a random model may differ by where other things share a batch: 0.03
// was measured. Those after different tokens are whole units apart.
const rounding = 0.2

// TestScattered: a sequence whose cells have to lie between another one's is imported as exactly as
// into empty ones.
func TestScattered(t *testing.T) {
	r := opened(t, llamaModel(t), Options{Context: 512, Sequences: 2})
	c := tokensOf(250, 3)
	pass(t, r, "", c, 0, table(32, 16))
	want := pass(t, r, "", c[:1], len(c), table(32, 16))
	for at := range 200 {
		if err := r.Forward([]runner.Work{
			{Sequence: "a", Tokens: []int32{int32(at)}, Start: at, Tables: table(0, 13)},
			{Sequence: "b", Tokens: []int32{int32(at)}, Start: at, Tables: table(13, 13)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]float32, r.Model().Vocab)
	if err := r.Forward([]runner.Work{
		{Sequence: "a", Tokens: []int32{1}, Start: 200, Tables: table(0, 13)},
		{Sequence: "c", Tokens: c[:1], Start: len(c), Tables: table(32, 16), Logits: got},
	}); err != nil {
		t.Fatal(err)
	}
	worst := float32(0)
	for v := range got {
		worst = max(worst, got[v]-want[v], want[v]-got[v])
	}
	if worst > rounding {
		t.Errorf("logits differ by %g", worst)
	}
}

// TestLongPass: a pass of more tokens than llama.cpp computes at once is that of its parts.
func TestLongPass(t *testing.T) {
	r := opened(t, llamaModel(t), Options{})
	tokens := tokensOf(700, 4)
	want := pass(t, r, "whole", tokens, 0, table(0, 44))
	pass(t, r, "parts", tokens[:batchTokens], 0, table(44, 44))
	if got := pass(t, r, "parts", tokens[batchTokens:], batchTokens, table(44, 44)); !slices.Equal(got, want) {
		t.Error("the logits differ")
	}
}

// TestGroups: more sequences than llama.cpp may have, and more tokens than it has cells, are
// computed one group after the other; each gets what it gets alone.
func TestGroups(t *testing.T) {
	r := opened(t, llamaModel(t), Options{Context: 512, Sequences: 4})
	var batch, next []runner.Work
	var want [][]float32
	// The first three are too many tokens, the last five too many sequences.
	first := 0
	for i, n := range []int{200, 190, 180, 10, 11, 12, 13} {
		tokens, tables := tokensOf(n, i), table(first, n/16+1)
		first += n/16 + 1
		pass(t, r, "", tokens, 0, tables)
		want = append(want, pass(t, r, "", tokens[:1], len(tokens), tables))
		name := string(rune('a' + i))
		batch = append(batch, runner.Work{Sequence: name, Tokens: tokens, Tables: tables})
		next = append(next, runner.Work{Sequence: name, Tokens: tokens[:1], Start: len(tokens), Tables: tables, Logits: make([]float32, r.Model().Vocab)})
	}
	for _, works := range [][]runner.Work{batch, next} {
		if err := r.Forward(works); err != nil {
			t.Fatal(err)
		}
	}
	for i, w := range next {
		worst := float32(0)
		for v := range w.Logits {
			worst = max(worst, w.Logits[v]-want[i][v], want[i][v]-w.Logits[v])
		}
		// What shares a batch may change the rounding, no more.
		if worst > rounding {
			t.Errorf("sequence %d: logits differ by %g from those alone", i, worst)
		}
	}
}

func TestRefusesBadWork(t *testing.T) {
	r := opened(t, llamaModel(t), Options{})
	good := runner.Work{Sequence: "a", Tokens: []int32{1}, Tables: table(0, 1)}
	for want, change := range map[string]func(*runner.Work){
		"no tokens":            func(w *runner.Work) { w.Tokens = nil },
		"leave the context":    func(w *runner.Work) { w.Start = 1024 },
		"room for 3 logits":    func(w *runner.Work) { w.Logits = make([]float32, 3) },
		"block tables":         func(w *runner.Work) { w.Tables = nil },
		"outside the vocab":    func(w *runner.Work) { w.Tokens = []int32{-1} },
		"does not cover":       func(w *runner.Work) { w.Start = 16 },
		"outside the pool":     func(w *runner.Work) { w.Tables = table(1000, 1) },
		"in the batch twice":   func(w *runner.Work) {},
		"table [1,2) does not": func(w *runner.Work) { w.Tables[0].First = 1 },
	} {
		bad := good
		bad.Tables = slices.Clone(good.Tables)
		change(&bad)
		batch := []runner.Work{bad}
		if strings.Contains(want, "twice") {
			batch = append(batch, bad)
		}
		if err := r.Forward(batch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	r.Close()
	if err := r.Forward([]runner.Work{good}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed: %v", err)
	}
}
