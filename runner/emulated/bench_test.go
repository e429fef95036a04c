package emulated

import (
	"testing"

	"kvferry/runner"
)

// BenchmarkWrite writes a chunk of 256 tokens of an 8B model: it must be quicker than the
// 68 ms that an L4 computes it for.
func BenchmarkWrite(b *testing.B) { benchmark(b, false) }

// BenchmarkVerify reads the same when it arrives.
func BenchmarkVerify(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, verify bool) {
	const n = 256
	m := start(b, "llama-3.1-8b", n/tpb+1)
	tables := m.tables(0, n+1)
	tokens := prompt(1, n)
	m.mustPass(b, tables, 0, tokens)
	b.SetBytes(int64(n * m.tokenBytes(0)))
	for b.Loop() {
		work := runner.Work{Tokens: tokens, Tables: tables}
		if verify {
			for i := range m.groups[0].blocks {
				m.groups[0].blocks[i] = knownBlock{}
			}
			work.Tokens, work.Start = tokens[:1], n
		}
		if err := m.Forward([]runner.Work{work}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKnown is a decode pass of 32 sequences of 4,000 tokens whose blocks are known.
func BenchmarkKnown(b *testing.B) {
	const n, sequences = 4000, 32
	m := start(b, "test", sequences*(n/tpb+1))
	var batch []runner.Work
	for i := range sequences {
		tables := m.tables(i*(n/tpb+1), n+1)
		m.mustPass(b, tables, 0, prompt(uint64(i), n))
		batch = append(batch, runner.Work{Tokens: []int32{1}, Start: n, Tables: tables})
	}
	for b.Loop() {
		if err := m.Forward(batch); err != nil {
			b.Fatal(err)
		}
	}
}
