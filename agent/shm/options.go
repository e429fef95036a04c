// Package shm is a transfer agent between processes of one host and one user, over shared
// memory. Each process maps its peers' registered memory, to read it and never to write it: a
// writable mapping that was handed out could not be taken back. So the receiver does the copying. A
// writer names the ranges in a ring that lies in its own memory and rings a bell; the
// receiver checks every range against the epoch's grant, copies, and answers in its own ring. A
// reader copies by itself. // PIPE-32
//
// A unix socket brings the two together, hands over the descriptors, carries the messages that
// go alone, and tells at once when the other process ends.
//
// Two processes of one user can trace each other; what is checked of a peer guards against its
// faults and against a process that is not ours, not against its user.
package shm

import (
	"log/slog"
	"time"

	"kvferry/agent/auth"
	"kvferry/wire"
)

// Options of an agent. The zero value is good; what is zero gets the default named here.
type Options struct {
	// Listen is the name under which peers of this host find the agent, or a whole address
	// that Addr gave: a name drawn at random.
	Listen string
	// Secret is the deployment's token, which both ends must have, or that there is none.
	Secret auth.Secret
	// Log gets an event a line: slog.Default().
	Log *slog.Logger
	// Handshake is how long Connect and a peer that connects may take in all: 5 s.
	Handshake time.Duration
	// Ping is how often a peer is asked for a sign of life, and DeadAfter how long it may owe
	// one before it is lost: 2 s and 10 s. A peer process that ends is lost at once.
	Ping, DeadAfter time.Duration
	// RevokeGrace is how long the copying of a part of a revoked epoch may take to be finished
	// before its peer is dropped: 200 ms.
	RevokeGrace time.Duration
	// Workers is how many goroutines copy: as many as run at once.
	Workers int
	// FrameBytes and FrameRanges are the most that is copied between two looks at the grants,
	// and before another flow gets its turn: 1 MiB and 256.
	FrameBytes, FrameRanges int
	// Pace, when not nil, is asked before bytes are copied out of a peer's memory, and says how
	// many of n may be copied now; done ends its wait. It is for tests: fault.Gate.Take is one
	// but for the peer.
	Pace func(done <-chan struct{}, from wire.Life, n int) (int, error)
}
