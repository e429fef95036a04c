package reference

import (
	"math"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
)

// The framework's logits are float32 sums in another order, printed to five decimals, so
// with f32 KV we are within a few hundred-thousandths (1e-5 measured). Rounding KV to f16
// (2^-11 of each value) moves logits by thousandths (0.0031 measured, logits reach 15).
// Each bound leaves room for about three times what was measured; a wrong rope base, window
// or norm moves logits by more than 0.1.
var goldenBounds = map[kvcache.DType]float64{kvcache.F32: 5e-5, kvcache.F16: 0.01}

func TestGolden(t *testing.T) {
	for kv, bound := range goldenBounds {
		r := loadTiny(t, kv)
		tables := attach(t, r, 64)
		for _, c := range goldenCases(t) {
			logits := make([]float32, r.Model().Vocab)
			worst, start := 0.0, 0
			for k, pos := range c.Positions {
				forward(t, r, runner.Work{Tokens: c.IDs[start : pos+1], Start: start, Tables: tables, Logits: logits})
				start = pos + 1
				for _, top := range c.Top5[k] {
					worst = max(worst, math.Abs(float64(logits[int(top[0])])-top[1]))
				}
			}
			t.Logf("%s KV, %d tokens: logits differ by up to %.2g", kv, len(c.IDs), worst)
			if worst > bound {
				t.Errorf("%s KV, %d tokens: logits differ by up to %g, bound %g", kv, len(c.IDs), worst, bound)
			}
			if start < len(c.IDs) {
				forward(t, r, runner.Work{Tokens: c.IDs[start:], Start: start, Tables: tables, Logits: logits})
			}
			for i, want := range c.Greedy {
				got := argmax(logits)
				if got != want {
					t.Fatalf("%s KV, %d tokens: greedy token %d is %d, want %d", kv, len(c.IDs), i, got, want)
				}
				forward(t, r, runner.Work{Tokens: []int32{got}, Start: len(c.IDs) + i, Tables: tables, Logits: logits})
			}
		}
	}
}
