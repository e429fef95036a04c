package lease

import "math"

// never is the deadline of what waits for no time.
const never int64 = math.MaxInt64

// Extension is how long a heartbeat renews leases of the given duration, in ns (LEASE-03).
func Extension(duration int64) int64 { return duration / 3 * 2 }

// Interval is the time from one heartbeat to the next for leases of the given duration, in ns
// (LEASE-07).
func Interval(duration int64) int64 { return duration / 6 }
