package fault

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"kvferry/wire"
)

// Kind is what the agent is asked to do.
type Kind string

// The kinds of operations that a script decides on.
const (
	Write  Kind = "write"
	Read   Kind = "read"
	Notify Kind = "notify"
)

// Op is one operation, before it is passed on.
type Op struct {
	Kind Kind
	Peer wire.Life
	// Nth counts the operations of this kind with this peer from 1.
	Nth int
	// Bytes is how many a transfer moves, or how long a payload is.
	Bytes uint64
}

// Action is what becomes of an operation. The zero Action passes it on.
type Action struct {
	// Delay comes on top of the time that the link takes; later operations wait too.
	Delay time.Duration
	// Fail, when not nil, is a transfer's error: it is not passed on. A notice is lost.
	Fail error
	// LoseNotice: a transfer goes on without its notice; a notice is lost.
	LoseNotice bool
	// Drop: the peer's connections are dropped, and the operation with them.
	Drop bool
}

// Script decides on operations. It is called in the order in which the caller asked, one at a
// time.
type Script func(Op) Action

// Nth is the script that does a to the nth operation of a kind with each peer.
func Nth(k Kind, n int, a Action) Script {
	return func(o Op) Action {
		if o.Kind == k && o.Nth == n {
			return a
		}
		return Action{}
	}
}

// Odds are how likely a fault is, each from 0 to 1.
type Odds struct {
	Fail, LoseNotice, Drop float64
	// Delay is the longest; each operation draws its own.
	Delay time.Duration
	// Cause is what failed transfers fail with.
	Cause error
}

// Seeded is the script that draws from the odds. What becomes of an operation depends on the
// seed, its kind and its number alone: it is the same however goroutines interleave, and
// whatever life the peer has drawn.
func Seeded(seed uint64, odds Odds) Script {
	return func(o Op) Action {
		h := fnv.New64a()
		h.Write([]byte(o.Kind))
		r := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(o.Nth)))
		var a Action
		if r.Float64() < odds.Fail {
			a.Fail = odds.Cause
		}
		a.LoseNotice = r.Float64() < odds.LoseNotice
		a.Drop = r.Float64() < odds.Drop
		if odds.Delay > 0 {
			a.Delay = time.Duration(r.Int64N(int64(odds.Delay)))
		}
		return a
	}
}
