package reference

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/models"
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
		seqs := randomSequences(t, r, rng, rapid.IntRange(1, 4).Draw(rt, "sequences"))
		d := newDriver(t, r, one, blocksFor(r, seqs), rng)
		if err := d.finish(seqs); err != nil {
			rt.Fatal(err)
		}
	})
}

// The tiny model, whose window is longer than its blocks, in a few fixed cuts.
// req: SERVE-02
func TestTinyChunks(t *testing.T) {
	tokens := longCase(t).IDs[:300]
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32} {
		r := loadTiny(t, kv)
		want := truthOf(t, r, tokens)
		for _, size := range []int{300, 256, 130, 37} {
			d := newDriver(t, r, one, 40, rand.New(rand.NewPCG(uint64(size), 1)))
			s := &sequence{tokens: tokens, truth: want, tables: make([]kvcache.BlockTable, len(r.layout.Groups))}
			for s.done < len(tokens) {
				if err := d.advance(chunk{s, min(size, len(tokens)-s.done), true}); err != nil {
					t.Fatalf("%s KV, chunks of %d: %v", kv, size, err)
				}
			}
		}
	}
}

// The bits must not change from machine to machine either, nor with the number of ranks:
// this sum was made on amd64 with vectors and one rank, and any other build and cut must
// give it.
// req: SERVE-02, PIPE-30
func TestBits(t *testing.T) {
	for _, p := range []kvcache.Parallel{{}, {Tensor: 2, Pipeline: 1}, {Tensor: 4, Pipeline: 1}, {Tensor: 2, Pipeline: 2}} {
		r := loadCut(t, models.Tiny, Options{BlockTokens: 16, KV: kvcache.F16, Parallel: p})
		if p == (kvcache.Parallel{}) {
			p = one
		}
		out := newMemory(t, r, p, 10).truth(t, longCase(t).IDs[:150])
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
			t.Errorf("%+v: the bits sum up to %#x, want %#x", p, sum, want)
		}
	}
}
