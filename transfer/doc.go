// Package transfer holds the protocol that ferries one request's KV from a
// prefill engine to a decode engine: Send is the prefill side of a request,
// Receive the decode side, Plan says which blocks a slice copies. Where the
// decode side reads instead of being written to, Offer holds what a handle
// names, Send announces, and Pull reads on the other side and proves it.
//
// All four are pure machines. Step tells them what happened, Tick that
// the time of Deadline has come, and Outputs what the shell must now do, in
// order. Time is handed in, in nanoseconds of a clock of the caller's. They
// have one owner, no locks and do no IO; bulk bytes never enter them: a
// Copy or Read goes out, and Copied or ReadDone comes back. An Offer has no
// Tick, for the lease that it is under has the clock.
package transfer

import "math"

// Never is the deadline of a machine that waits for no time.
const Never int64 = math.MaxInt64
