package load

import (
	"math"
	"time"
)

// histogram counts times in buckets that are one percent wide, so that it is as large after a
// day as after a second.
type histogram struct {
	counts  []uint64
	n       uint64
	sum     time.Duration
	longest time.Duration
}

// The first bucket ends at shortest, and each next one ends growth times later.
const (
	shortest = float64(time.Microsecond)
	growth   = 1.01
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if float64(d) > shortest {
		i = int(math.Ceil(math.Log(float64(d)/shortest) / math.Log(growth)))
	}
	for len(h.counts) <= i {
		h.counts = append(h.counts, 0)
	}
	h.counts[i]++
	h.n++
	h.sum += d
	h.longest = max(h.longest, d)
}

// quantile is the time that a share q of all did not exceed, to a percent.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.n)))
	seen := uint64(0)
	for i, c := range h.counts {
		seen += c
		if seen >= rank && c > 0 {
			end := shortest * math.Pow(growth, float64(i))
			return min(end, float64(h.longest)) / float64(time.Second)
		}
	}
	return h.longest.Seconds()
}

func (h *histogram) summary() Times {
	t := Times{Count: h.n, P50: h.quantile(0.5), P90: h.quantile(0.9), P99: h.quantile(0.99), Max: h.longest.Seconds()}
	if h.n > 0 {
		t.Mean = h.sum.Seconds() / float64(h.n)
	}
	return t
}
