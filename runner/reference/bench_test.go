package reference

import (
	"fmt"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
)

// BenchmarkPrefill computes a prompt of 495 tokens in chunks of 256, with logits at its end.
// Set GOMAXPROCS=1 for the figure of one core.
func BenchmarkPrefill(b *testing.B) {
	r := loadTiny(b, kvcache.F16)
	ids := longCase(b).IDs
	tables := attach(b, r, 64)
	logits := make([]float32, r.Model().Vocab)
	b.ReportAllocs()
	for b.Loop() {
		for start := 0; start < len(ids); start += 256 {
			w := runner.Work{Tokens: ids[start:min(start+256, len(ids))], Start: start, Tables: tables}
			if start+256 >= len(ids) {
				w.Logits = logits
			}
			forward(b, r, w)
		}
	}
	b.ReportMetric(float64(len(ids))*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkDecode computes one token each of so many sequences behind 400 tokens.
func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			r := loadTiny(b, kvcache.F16)
			ids := longCase(b).IDs
			const before, blocks = 400, 32
			attach(b, r, n*blocks)
			batch := make([]runner.Work, n)
			for i := range batch {
				tables := sequentialTables(r, i*blocks, blocks)
				forward(b, r, runner.Work{Tokens: ids[:before], Tables: tables})
				batch[i] = runner.Work{
					Tokens: ids[before : before+1], Start: before, Tables: tables,
					Logits: make([]float32, r.Model().Vocab),
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				forward(b, r, batch...)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
