package reference

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// shapes are models that are awkward in different ways: windows shorter than a prompt; head
// sizes that do not fill a vector; heads and columns that cannot be quartered.
var shapes = []reftest.ModelOptions{
	{Arch: "gemma3", Layers: 7, Width: 40, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 50, Window: 13},
	{Arch: "llama", Layers: 2, Width: 36, Heads: 6, KVHeads: 2, HeadDim: 10, FFN: 45},
	{Arch: "llama", Layers: 2, Width: 32, Heads: 5, KVHeads: 1, HeadDim: 32, FFN: 64},
	{Arch: "gemma3", Layers: 2, Width: 32, Heads: 4, KVHeads: 4, HeadDim: 6, FFN: 32, Window: 1},
}

// truth is what one token after another, alone in its batch, gives: the logits and the KV
// of every position.
type truth struct {
	logits [][]float32
	kv     [][]byte
}

// kvAt copies the KV of one position out of the blocks, every layer of one group.
func kvAt(r *Runner, t kvcache.BlockTable, g, pos int) []byte {
	var out []byte
	rowsOf(r, t, g, pos, func(row []byte) { out = append(out, row...) })
	return out
}

// rowsOf visits where a position's keys and values lie in the pool of group g.
func rowsOf(r *Runner, t kvcache.BlockTable, g, pos int, visit func(row []byte)) {
	lay := r.layout
	block, slot := int(t.Block(pos/lay.BlockTokens)), pos%lay.BlockTokens
	pool := r.pools[g][block*lay.BlockBytes(g):]
	size := lay.HeadDim * lay.DType.Size()
	for l := range lay.Groups[g].Layers {
		for h := range 2 * lay.KVHeads {
			at := lay.HeadOffset(l, h/lay.KVHeads, h%lay.KVHeads) + slot*size
			visit(pool[at : at+size])
		}
	}
}

func truthOf(t testing.TB, r *Runner, tokens []int32) truth {
	tables := attach(t, r, r.layout.TotalBlocks(len(tokens)))
	var out truth
	for pos := range tokens {
		logits := make([]float32, r.model.Vocab)
		forward(t, r, runner.Work{Tokens: tokens[pos : pos+1], Start: pos, Tables: tables, Logits: logits})
		out.logits = append(out.logits, logits)
	}
	for pos := range tokens {
		var kv []byte
		for g, table := range tables {
			kv = append(kv, kvAt(r, table, g, pos)...)
		}
		out.kv = append(out.kv, kv)
	}
	return out
}

// sequence is one request in a driven batch.
type sequence struct {
	tokens []int32
	truth  truth
	done   int
	tables []kvcache.BlockTable
}

// driver runs sequences over pools that hold NaN wherever nothing was stored.
type driver struct {
	r    *Runner
	rng  *rand.Rand
	free [][]kvcache.BlockID
}

// newDriver attaches pools of so many blocks, whose free ones are handed out in random order.
func newDriver(t testing.TB, r *Runner, blocks int, rng *rand.Rand) *driver {
	attach(t, r, blocks)
	d := &driver{r: r, rng: rng}
	for _, pool := range r.pools {
		poison(pool)
		var ids []kvcache.BlockID
		for _, b := range rng.Perm(blocks) {
			ids = append(ids, kvcache.BlockID(b))
		}
		d.free = append(d.free, ids)
	}
	return d
}

// poison fills stored values with NaN, in either type.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// prepare gives s the blocks for n more tokens, takes away those that no layer of the group
// can see any more, and poisons whatever of the rest lies outside the window.
func (d *driver) prepare(s *sequence, n int) {
	lay := d.r.layout
	for g := range s.tables {
		t := &s.tables[g]
		for t.End() < lay.TotalBlocks(s.done+n) {
			last := len(d.free[g]) - 1
			t.Blocks = append(t.Blocks, d.free[g][last])
			d.free[g] = d.free[g][:last]
		}
		from := visibleFrom(s.done, lay.Groups[g].Window)
		for t.First < from/lay.BlockTokens {
			b := t.Blocks[0]
			size := lay.BlockBytes(g)
			poison(d.r.pools[g][int(b)*size : (int(b)+1)*size])
			// The next to take a block may well get this one.
			d.free[g] = slices.Insert(d.free[g], d.rng.IntN(len(d.free[g])+1), b)
			t.Blocks = t.Blocks[1:]
			t.First++
		}
		for pos := t.First * lay.BlockTokens; pos < from; pos++ {
			rowsOf(d.r, *t, g, pos, poison)
		}
	}
}

// check compares the last n tokens' KV, and the last one's logits if there are any.
func (d *driver) check(s *sequence, n int, logits []float32) error {
	for pos := s.done - n; pos < s.done; pos++ {
		var kv []byte
		for g, t := range s.tables {
			kv = append(kv, kvAt(d.r, t, g, pos)...)
		}
		if !bytes.Equal(kv, s.truth.kv[pos]) {
			return fmt.Errorf("KV of position %d differs", pos)
		}
	}
	return equalBits(logits, s.truth.logits[s.done-1])
}

func equalBits(got, want []float32) error {
	for v := range got {
		if math.Float32bits(got[v]) != math.Float32bits(want[v]) {
			return fmt.Errorf("logit %d is %g, want %g", v, got[v], want[v])
		}
	}
	return nil
}

// A token's logits and KV have the same bits whatever shares its batch, wherever its prompt
// is cut, whichever blocks it has and however many threads there are; and nothing outside
// a table or a window is read, for NaN is stored there.
// req: SERVE-02
func TestBatchInvariance(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.IntRange(0, len(shapes)-1).Draw(rt, "shape")
		kv := rapid.SampledFrom([]kvcache.DType{kvcache.F16, kvcache.F32}).Draw(rt, "kv")
		tpb := rapid.IntRange(1, 20).Draw(rt, "block tokens")
		seed := rapid.Uint64().Draw(rt, "seed")
		runtime.GOMAXPROCS(rapid.IntRange(1, 3).Draw(rt, "threads"))
		r, err := Load("random", reftest.Model(shapes[shape]), Options{BlockTokens: tpb, KV: kv})
		if err != nil {
			rt.Fatal(err)
		}
		defer r.Close()
		rng := rand.New(rand.NewPCG(seed, 1))
		var seqs []*sequence
		for range rapid.IntRange(1, 4).Draw(rt, "sequences") {
			s := &sequence{tables: make([]kvcache.BlockTable, len(r.layout.Groups))}
			for range 1 + rng.IntN(40) {
				s.tokens = append(s.tokens, rng.Int32N(int32(r.model.Vocab)))
			}
			s.truth = truthOf(t, r, s.tokens)
			seqs = append(seqs, s)
		}
		d := newDriver(t, r, 4*41, rng)
		for len(seqs) > 0 {
			if err := d.step(seqs); err != nil {
				rt.Fatal(err)
			}
			seqs = slices.DeleteFunc(seqs, func(s *sequence) bool { return s.done == len(s.tokens) })
		}
	})
}

// step runs a random chunk of each of some random sequences in one batch.
func (d *driver) step(seqs []*sequence) error {
	var batch []runner.Work
	var in []*sequence
	for _, i := range d.rng.Perm(len(seqs))[:1+d.rng.IntN(len(seqs))] {
		s := seqs[i]
		n := 1 + d.rng.IntN(len(s.tokens)-s.done)
		d.prepare(s, n)
		w := runner.Work{Tokens: s.tokens[s.done : s.done+n], Start: s.done, Tables: s.tables}
		if d.rng.IntN(3) > 0 {
			w.Logits = make([]float32, d.r.model.Vocab)
		}
		batch, in = append(batch, w), append(in, s)
	}
	if err := d.r.Forward(batch); err != nil {
		return err
	}
	for i, s := range in {
		n := len(batch[i].Tokens)
		s.done += n
		if err := d.check(s, n, batch[i].Logits); err != nil {
			return fmt.Errorf("%d tokens up to position %d: %w", n, s.done, err)
		}
	}
	return nil
}

// The tiny model, whose window is longer than its blocks, in a few fixed cuts.
// req: SERVE-02
func TestTinyChunks(t *testing.T) {
	tokens := longCase(t).IDs[:300]
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32} {
		r := loadTiny(t, kv)
		want := truthOf(t, r, tokens)
		for _, chunk := range []int{300, 256, 130, 37} {
			d := newDriver(t, r, 40, rand.New(rand.NewPCG(uint64(chunk), 1)))
			s := &sequence{tokens: tokens, truth: want, tables: make([]kvcache.BlockTable, len(r.layout.Groups))}
			for s.done < len(tokens) {
				n := min(chunk, len(tokens)-s.done)
				d.prepare(s, n)
				logits := make([]float32, r.model.Vocab)
				forward(t, r, runner.Work{Tokens: tokens[s.done : s.done+n], Start: s.done, Tables: s.tables, Logits: logits})
				s.done += n
				if err := d.check(s, n, logits); err != nil {
					t.Fatalf("%s KV, chunks of %d, up to %d: %v", kv, chunk, s.done, err)
				}
			}
		}
	}
}

// The bits must not change from machine to machine either: this sum was made on amd64 with
// vectors, and any other build must give it.
// req: SERVE-02
func TestBits(t *testing.T) {
	r := loadTiny(t, kvcache.F16)
	out := truthOf(t, r, longCase(t).IDs[:150])
	sum := uint64(14695981039346656037)
	add := func(v uint32) { sum = (sum ^ uint64(v)) * 1099511628211 }
	for pos, logits := range out.logits {
		for _, v := range logits {
			add(math.Float32bits(v))
		}
		for _, b := range out.kv[pos] {
			add(uint32(b))
		}
	}
	if want := uint64(0xc0f6a7734a678888); sum != want {
		t.Errorf("the bits sum up to %#x, want %#x", sum, want)
	}
}
