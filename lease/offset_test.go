package lease

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// req: LEASE-20
//
// TestOffsetIsSafe: whatever the two clocks' origins, a drift of up to 200 ppm, and however the
// round trip divides, a deadline that has passed on the peer's clock is never said to be to come.
// One that is further off than the round trip and twice the drift is not said to have passed.
func TestOffsetIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		origin := rapid.Int64Range(0, 1<<50).Draw(t, "origin")
		ppm := rapid.Int64Range(-199, 199).Draw(t, "ppm")
		theirs := func(ours int64) int64 { return origin + ours + ours/1_000_000*ppm }
		// The times are whole milliseconds, so that theirs is exact.
		const ms = 1_000_000
		var o Offset
		now := rapid.Int64Range(0, 1<<30).Draw(t, "start") * ms
		best := int64(math.MaxInt64) // no sample says less
		for range rapid.IntRange(1, 5).Draw(t, "samples") {
			there := rapid.Int64Range(0, 1000).Draw(t, "there") * ms
			back := rapid.Int64Range(0, 1000).Draw(t, "back") * ms
			o.Sample(now, theirs(now+there), now+there+back)
			wait := rapid.Int64Range(0, 1<<20).Draw(t, "wait") * ms
			now += there + back + wait
			best = min(best, there+back) + (there+back+wait)*400/1_000_000 + 4
			if deadline := theirs(now); !o.Passed(deadline, now) || !o.Passed(deadline-1, now) {
				t.Fatalf("a deadline at %d is to come, at %d of theirs", deadline, theirs(now))
			}
			if deadline := theirs(now) + best + 1; o.Passed(deadline, now) {
				t.Fatalf("a deadline %d ns off has passed", best+1)
			}
		}
	})
}

// req: LEASE-20
//
// TestOffsetKeepsTheBestSample: the shortest round trip says the most, until it has aged by drift
// so far that another does.
func TestOffsetKeepsTheBestSample(t *testing.T) {
	const s = int64(1_000_000_000)
	var o Offset
	if !o.Passed(math.MaxInt64, 0) {
		t.Error("a clock of which nothing is known is trusted")
	}
	o.Sample(0, 100*s, s/1000)           // 1 ms round trip: within half of it
	o.Sample(10*s, 111*s, 12*s)          // 2 s: says less than the first, aged by 2.4 ms
	if o.Passed(110*s+10*s/1000, 10*s) { // 10 ms off
		t.Error("a worse sample took the place of a better one")
	}
	if !o.Passed(110*s+2*s/1000, 10*s) { // 2 ms off: 10 s of drift is as much
		t.Error("the drift since the sample does not count")
	}
	// After 10000 s the first is good to 2 s and 1 ms; half of 3 s is better.
	o.Sample(10_000*s, 10_101*s+s/2, 10_003*s)
	if o.Passed(10_104*s+s*6/10, 10_003*s) || !o.Passed(10_104*s+s*4/10, 10_003*s) {
		t.Error("a sample that aged is kept")
	}
}

// TestOffsetOfNonsense: times that no clock gives change nothing, and extreme ones overflow nothing.
func TestOffsetOfNonsense(t *testing.T) {
	var o Offset
	o.Sample(10, 5, 9)
	o.Sample(-1, 5, 9)
	o.Sample(1, -5, 9)
	if o.known {
		t.Fatal("learnt from nonsense")
	}
	o.Sample(0, math.MaxInt64, 0)
	if !o.Passed(math.MaxInt64, math.MaxInt64) || o.Passed(math.MaxInt64, math.MinInt64) {
		t.Error("the sum overflows upward")
	}
	if !o.Passed(math.MinInt64, 0) {
		t.Error("a deadline of long ago is to come")
	}
	o = Offset{}
	o.Sample(math.MaxInt64-2, 0, math.MaxInt64)
	if o.Passed(1<<40, 0) {
		t.Error("the sum overflows downward")
	}
}
