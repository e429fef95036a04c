package lease

import "math"

// driftPart is what part of the time since a sample two clocks may have drifted apart: 200 ppm.
const driftPart = 5000

// Offset is what is known of a peer's clock, from questions that it answered with its time. The
// zero value knows nothing (LEASE-20).
type Offset struct {
	known  bool
	offset int64 // their clock less ours, if the answer was made midway
	half   int64 // half the round trip: how far that may be wrong
	at     int64 // since when it drifts, on our clock
}

// Sample learns from one question: when it was sent and when its answer was received on our
// clock, and what theirs said between. The sample that now says the most is kept. Times that no
// clock can have given say nothing.
func (o *Offset) Sample(sent, theirs, received int64) {
	if sent < 0 || theirs < 0 || received < sent {
		return
	}
	half := (received - sent) / 2
	// It ages from when it was sent: the clocks drift while the answer is on its way.
	fresh := Offset{known: true, offset: theirs - (sent + half), half: half + 1, at: sent}
	if !o.known || fresh.margin(received) <= o.margin(received) {
		*o = fresh
	}
}

// Passed says whether a deadline on their clock has passed, or may have; now is on ours. It is
// true if nothing is known.
func (o *Offset) Passed(deadline, now int64) bool {
	if !o.known {
		return true
	}
	return add(add(now, o.offset), o.margin(now)) >= deadline
}

// margin is how far the offset may be wrong now.
func (o *Offset) margin(now int64) int64 {
	aged := max(now-o.at, 0)
	return add(o.half, aged/driftPart+1)
}

// add does not overflow, whatever a peer's clock says.
func add(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
