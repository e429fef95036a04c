package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantiles: within a percent of those of the sorted list.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 50).Draw(t, "times")
		var h histogram
		for _, v := range list {
			h.add(time.Duration(v))
		}
		slices.Sort(list)
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			want := float64(list[int(math.Ceil(q*float64(len(list))))-1]) / 1e9
			if got := h.quantile(q); got < want*0.989 || got > want*1.011+1.1e-6 {
				t.Fatalf("%v of %v: %v, want %v", q, list, got, want)
			}
		}
		if s := h.summary(); s.Max != time.Duration(list[len(list)-1]).Seconds() || s.Count != uint64(len(list)) {
			t.Fatalf("%+v", s)
		}
	})
	var none histogram
	if s := none.summary(); s != (Times{}) {
		t.Errorf("of nothing: %+v", s)
	}
}
