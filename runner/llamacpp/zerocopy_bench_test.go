//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"os"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// benchModel is the real model, or where there is none one with random weights.
func benchModel(b *testing.B) string {
	if path := os.Getenv("KVFERRY_LLAMA_MODEL"); path != "" {
		return path
	}
	return random(b, reftest.ModelOptions{Layers: 12, Heads: 8, KVHeads: 4, HeadDim: 64, Width: 512, Context: 1024})
}

// ways are the ways that rows go: by states without any callback, and from memory, without and with
// someone who waits for each layer.
var ways = []struct {
	name          string
	states, layer bool
}{{"states", true, false}, {"memory", false, false}, {"layers", false, true}}

// BenchmarkPass is what a pass takes, a chunk and a token: what the callback costs is the difference of
// states and memory, less that of what BenchmarkRows gives for the rows.
func BenchmarkPass(b *testing.B) {
	path := benchModel(b)
	for _, size := range []struct {
		name   string
		tokens int
	}{{"chunk256", 256}, {"token", 1}} {
		for _, way := range ways {
			b.Run(size.name+"/"+way.name, func(b *testing.B) {
				r := opened(b, path, Options{Context: 1024, StateAPI: way.states})
				before := runner.Work{Sequence: "a", Tokens: tokensOf(256, 2), Tables: table(0, 64)}
				w := runner.Work{Sequence: "a", Tokens: tokensOf(size.tokens, 1), Start: 1024, Tables: table(0, 64)}
				if way.layer {
					w.Written = func(int) {}
				}
				for b.Loop() {
					b.StopTimer()
					if w.Start += size.tokens; w.Start > 768 {
						w.Start = 256
						if err := r.Forward([]runner.Work{before}); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					if err := r.Forward([]runner.Work{w}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size.tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// BenchmarkRows is what moving the rows of 256 tokens takes alone: out, from states and from memory;
// and in, the two copies of an import, and what would take the place of the first if rows were written
// straight to cells, which the second is needed for all the same.
func BenchmarkRows(b *testing.B) {
	const tokens = 256
	path := benchModel(b)
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.Q8_0} {
		r := opened(b, path, Options{Context: 1024, KV: kv})
		batch := []runner.Work{{Sequence: "a", Tokens: tokensOf(tokens, 2), Tables: table(0, 64)}}
		spans := []span{{0, 0, tokens}}
		if err := r.Forward(batch); err != nil {
			b.Fatal(err)
		}
		id := r.held["a"].id
		state := r.rows.assemble(nil, batch[0].Tables, tokens)
		for _, c := range []struct {
			name string
			move func() error
		}{
			{"out/states", func() error { return r.exportStates(&batch[0], id, 0, tokens) }},
			{"out/memory", func() error { r.taken = 0; r.take(batch, spans, len(r.places)); return nil }},
			{"in/assemble", func() error { r.rows.assemble(state, batch[0].Tables, tokens); return nil }},
			{"in/enter", func() error {
				if llama.StateSeqSetDataExt(r.ctx, state, id, 0) != uint64(len(state)) {
					return errImport
				}
				return nil
			}},
			{"in/cells", func() error { r.fill(batch[0].Tables[0], tokens); return nil }},
		} {
			b.Run(kv.String()+"/"+c.name, func(b *testing.B) {
				b.SetBytes(int64(len(state)))
				for b.Loop() {
					if err := r.thread.do(c.move); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// fill writes the rows of the first positions from the blocks straight to the cells they are in.
func (r *Runner) fill(t kvcache.BlockTable, tokens int) {
	for layer := range r.places {
		for kv := range 2 {
			r.rows.get(r.places[layer], kv, t, 0, tokens, func(i int) []byte { return r.tap.at(layer, kv, int(r.tap.cells[0][i])) })
		}
	}
}
