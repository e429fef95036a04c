package agent

import (
	"errors"
	"fmt"
	"strings"

	"kvferry/wire"
)

// The causes that an Error may have, for errors.Is.
var (
	// ErrUnknownPeer: no connection with the peer is up.
	ErrUnknownPeer = errors.New("the peer is not connected")
	// ErrPeerLost: the connections with the peer ended before the transfer did.
	ErrPeerLost = errors.New("the peer is lost")
	// ErrClosed: the agent was closed.
	ErrClosed = errors.New("the agent is closed")
	// ErrRefused: the peer refused the transfer, for want of a grant or of such memory.
	ErrRefused = errors.New("the peer refused")
	// ErrBadTransfer: the transfer's own lists are wrong; nothing was sent.
	ErrBadTransfer = errors.New("the transfer's lists are wrong")
	// ErrRevokeGrace: a revoked receive was still being written when its grace ended.
	ErrRevokeGrace = errors.New("a revoked receive was still being written")
	// ErrNotLocal: the peer is on another host, in another namespace or of another user, so that
	// memory cannot be shared with it; another kind of agent may reach it.
	ErrNotLocal = errors.New("no memory can be shared with the peer")
	// ErrSelf: the address is the agent's own.
	ErrSelf = errors.New("the address is our own")
)

// Error says what failed, with whom and why.
type Error struct {
	// Op is what failed: connect, write, read, notify, connection.
	Op string
	// Peer is zero where it is not known; then Addr may be.
	Peer wire.Life
	Addr string
	// Transfer is the caller's ID, of a write or a read.
	Transfer uint64
	Cause    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("agent: " + e.Op)
	if e.Op == "write" || e.Op == "read" {
		fmt.Fprintf(&b, " %d", e.Transfer)
	}
	if e.Peer != (wire.Life{}) {
		fmt.Fprintf(&b, ": peer %s", e.Peer)
	}
	if e.Addr != "" {
		fmt.Fprintf(&b, " at %s", e.Addr)
	}
	fmt.Fprintf(&b, ": %v", e.Cause)
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Lost is the cause of what ends because the peer is lost: an ErrPeerLost that keeps why.
func Lost(why error) error {
	switch {
	case why == nil:
		return ErrPeerLost
	case errors.Is(why, ErrPeerLost):
		return why
	}
	return fmt.Errorf("%w: %w", ErrPeerLost, why)
}

// Refused is an ErrRefused with the peer's reason.
func Refused(reason string) error { return fmt.Errorf("%w: %s", ErrRefused, reason) }
