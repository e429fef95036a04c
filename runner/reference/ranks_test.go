package reference

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// drawCut draws a way to cut a model, and a model that can be cut so: with fewer KV heads than
// ranks, as many or more, and columns that cannot be quartered evenly.
func drawCut(rt *rapid.T) (reftest.ModelOptions, kvcache.Parallel) {
	p := kvcache.Parallel{
		Tensor:   rapid.SampledFrom([]int{1, 2, 4}).Draw(rt, "tensor"),
		Pipeline: rapid.IntRange(1, 3).Draw(rt, "pipeline"),
	}
	o := reftest.ModelOptions{
		Seed:    rapid.Uint64Range(0, 1000).Draw(rt, "model"),
		Arch:    rapid.SampledFrom([]string{"llama", "gemma3"}).Draw(rt, "arch"),
		Layers:  rapid.IntRange(p.Pipeline, 7).Draw(rt, "layers"),
		Width:   rapid.SampledFrom([]int{20, 32}).Draw(rt, "width"),
		HeadDim: rapid.SampledFrom([]int{2, 6, 16}).Draw(rt, "head dim"),
		FFN:     rapid.SampledFrom([]int{4, 7, 32, 45}).Draw(rt, "ffn"),
	}
	o.KVHeads = rapid.SampledFrom([]int{1, 2, 3, 4, 6, 8}).Filter(func(n int) bool {
		return n%p.Tensor == 0 || p.Tensor%n == 0
	}).Draw(rt, "kv heads")
	o.Heads = max(o.KVHeads, p.Tensor) * rapid.IntRange(1, 3).Draw(rt, "heads")
	if o.Arch == "gemma3" {
		o.Window = rapid.SampledFrom([]int{0, 1, 13}).Draw(rt, "window")
	}
	return o, p
}

// However a model is cut into ranks, its prompts into chunks and those into batches, the
// logits have the bits of one rank that computes token after token, and so has each rank's
// part of the KV; nothing else in any rank's pools changes.
// req: PIPE-30, SERVE-02
func TestRanks(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	rapid.Check(t, func(rt *rapid.T) {
		shape, p := drawCut(rt)
		opt := Options{
			BlockTokens: rapid.IntRange(1, 20).Draw(rt, "block tokens"),
			KV:          rapid.SampledFrom([]kvcache.DType{kvcache.F16, kvcache.F32}).Draw(rt, "kv"),
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		runtime.GOMAXPROCS(rapid.IntRange(1, 3).Draw(rt, "threads"))
		file := reftest.Model(shape)
		whole := loadFor(rt, file, opt)
		defer whole.Close()
		opt.Parallel = p
		r := loadFor(rt, file, opt)
		defer r.Close()
		rng := rand.New(rand.NewPCG(seed, 1))
		seqs := randomSequences(t, whole, rng, rapid.IntRange(1, 4).Draw(rt, "sequences"))
		if err := newDriver(t, r, p, blocksFor(r, seqs), rng).finish(seqs); err != nil {
			rt.Fatal(err)
		}
	})
}

func loadFor(rt *rapid.T, file []byte, opt Options) *Runner {
	r, err := Load("random", file, opt)
	if err != nil {
		rt.Fatal(err)
	}
	return r
}

// Only attention's steps touch pools. Run for one rank while the others have none, they would
// fail if they reached for another's.
func TestRanksKeepApart(t *testing.T) {
	for _, kvHeads := range []int{1, 2, 4} {
		file := reftest.Model(reftest.ModelOptions{Layers: 1, Heads: 8, KVHeads: kvHeads})
		p := kvcache.Parallel{Tensor: 4, Pipeline: 1}
		r := loadCut(t, file, Options{BlockTokens: 4, KV: kvcache.F16, Parallel: p})
		m := newMemory(t, r, p, 3)
		batch := []runner.Work{{Tokens: []int32{7, 8, 9, 10, 11, 12}, Tables: m.tables()}}
		forward(t, r, batch...)
		before := m.snapshot()
		for k := range r.ranks {
			for i := range r.ranks {
				r.ranks[i].pools = make([][]byte, 1)
			}
			// Its own is new: what the forward pass left must come back, by this rank's hand.
			own := make([]byte, len(before.pools[k]))
			poison(own)
			r.ranks[k].pools[0] = own
			storeAndAttend(r, batch, k)
			if !bytes.Equal(own, before.pools[k]) {
				t.Errorf("%d KV heads: rank %d stored something else alone than among others", kvHeads, k)
			}
		}
	}
}

// storeAndAttend does for one tensor rank the steps of layer 0 that touch pools.
func storeAndAttend(r *Runner, batch []runner.Work, t int) {
	p := &r.pass
	p.begin(batch)
	p.run((*pass).embed, p.chunks())
	p.l, p.ranks, p.angle = &r.w.layers[0], r.stages[0], &p.angles[0]
	p.group, p.inner = 0, 0
	p.run((*pass).attnNorm, p.chunks())
	p.multiply((*pass).qkv)
	p.pieces = p.chunks()
	for i := range p.pieces {
		p.store(0, t*p.pieces+i)
	}
	p.pieces = len(batch) * p.ranks[t].kv.Len()
	for i := range p.pieces {
		p.attend(0, t*p.pieces+i)
	}
}

// What cannot be cut is refused with the setting's name.
func TestLoadRefusesCuts(t *testing.T) {
	file := func(heads, kv int) []byte {
		return reftest.Model(reftest.ModelOptions{Heads: heads, KVHeads: kv, HeadDim: 2, Width: 16, FFN: 16})
	}
	narrow := reftest.Model(reftest.ModelOptions{FFN: 3})
	for _, c := range []struct {
		file []byte
		p    kvcache.Parallel
		want string
	}{
		{file(9, 3), kvcache.Parallel{Tensor: 3, Pipeline: 1}, "tensor_parallel_size 3: want 1, 2 or 4"},
		{file(8, 8), kvcache.Parallel{Tensor: 8, Pipeline: 1}, "tensor_parallel_size 8: want 1, 2 or 4"},
		{file(8, 8), kvcache.Parallel{Tensor: -2, Pipeline: 1}, "tensor_parallel_size -2"},
		{file(8, 8), kvcache.Parallel{Pipeline: 2}, "tensor_parallel_size 0"},
		{file(8, 8), kvcache.Parallel{Tensor: 2}, "pipeline_parallel_size 0"},
		{file(8, 8), kvcache.Parallel{Tensor: 2, Pipeline: 3}, "pipeline_parallel_size 3: want 1 to 2"},
		{file(12, 3), kvcache.Parallel{Tensor: 2, Pipeline: 1}, "tensor_parallel_size 2: does not divide 3 KV heads"},
		{file(12, 6), kvcache.Parallel{Tensor: 4, Pipeline: 1}, "tensor_parallel_size 4: does not divide 6 KV heads"},
		{file(6, 2), kvcache.Parallel{Tensor: 4, Pipeline: 1}, "tensor_parallel_size 4: does not divide 6 query heads"},
		{file(5, 1), kvcache.Parallel{Tensor: 2, Pipeline: 1}, "tensor_parallel_size 2: does not divide 5 query heads"},
		{narrow, kvcache.Parallel{Tensor: 4, Pipeline: 1}, "tensor_parallel_size 4: the feed-forward has 3 columns"},
	} {
		r, err := Load("m", c.file, Options{BlockTokens: 16, KV: kvcache.F16, Parallel: c.p})
		if err == nil {
			r.Close()
			t.Errorf("%+v is taken", c.p)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %q does not say %q", c.p, err, c.want)
		}
	}
}

// The embedded model's last layer is the only one without a window. The first of two stages
// has none of its group.
func TestAttachRefusesRanks(t *testing.T) {
	p := kvcache.Parallel{Tensor: 2, Pipeline: 2}
	r := loadCut(t, models.Tiny, Options{BlockTokens: 16, KV: kvcache.F16, Parallel: p})
	good := newMemory(t, r, p, 3).pools
	for i, pool := range good {
		if none := i == 1 || i == 3; none != (pool == nil) {
			t.Fatalf("pool %d has %d bytes: the model's layers are not what this test wants", i, len(pool))
		}
	}
	for _, c := range []struct {
		name string
		edit func(pools [][]byte) [][]byte
		want string
	}{
		{"too few", func(p [][]byte) [][]byte { return p[:7] }, "7 pools for 2 layer groups on 4 ranks"},
		{"too many", func(p [][]byte) [][]byte { return append(p, nil) }, "9 pools"},
		{"one missing", func(p [][]byte) [][]byte { p[2] = nil; return p }, "rank 1: pool of layer group 0: 0 bytes"},
		{"part of a block", func(p [][]byte) [][]byte { p[5] = p[5][1:]; return p }, "rank 2: pool of layer group 1"},
		{"one block fewer", func(p [][]byte) [][]byte { p[6] = p[6][:2*len(p[6])/3]; return p }, "rank 3: pool of layer group 0: 2 blocks, but 3"},
		{"one of nothing", func(p [][]byte) [][]byte { p[3] = p[7]; return p }, "rank 1: pool of layer group 1: this rank holds nothing"},
	} {
		err := r.Attach(c.edit(append([][]byte(nil), good...)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.name, err, c.want)
		}
	}
	// What was refused has not replaced what is attached.
	forward(t, r, runner.Work{Tokens: []int32{5}, Tables: sequentialTables(r, 0, 3)})
}

// The number of ranks adds no threads.
func TestRanksThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	file := reftest.Model(reftest.ModelOptions{})
	for _, p := range []kvcache.Parallel{one, {Tensor: 4, Pipeline: 2}} {
		before := runtime.NumGoroutine()
		r := loadCut(t, file, Options{BlockTokens: 16, KV: kvcache.F16, Parallel: p})
		newMemory(t, r, p, 2)
		forward(t, r, runner.Work{Tokens: []int32{5, 6, 7}, Tables: sequentialTables(r, 0, 2)})
		if n := runtime.NumGoroutine() - before; n != 2 {
			t.Errorf("%+v: %d goroutines beside the caller, want 2", p, n)
		}
	}
}

// BenchmarkRanks computes 300 tokens of prompt on so many ranks.
func BenchmarkRanks(b *testing.B) {
	for _, p := range []kvcache.Parallel{one, {Tensor: 2, Pipeline: 1}, {Tensor: 4, Pipeline: 1}, {Tensor: 4, Pipeline: 2}} {
		b.Run(fmt.Sprintf("tp=%d,pp=%d", p.Tensor, p.Pipeline), func(b *testing.B) {
			r := loadCut(b, models.Tiny, Options{BlockTokens: 16, KV: kvcache.F16, Parallel: p})
			w := runner.Work{Tokens: longCase(b).IDs[:300], Tables: newMemory(b, r, p, 20).tables()}
			b.ReportAllocs()
			for b.Loop() {
				forward(b, r, w)
			}
			b.ReportMetric(300*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
