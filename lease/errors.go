package lease

import "errors"

// Why a claim or a completion is not honoured. A claim's reason reaches the reader as text.
var (
	// ErrUnknown: no request of that ID is here, and none that is remembered ended lately.
	ErrUnknown = errors.New("lease: no such request")
	// ErrExpired: the lease ended for want of heartbeats.
	ErrExpired = errors.New("lease: the lease expired")
	// ErrConsumed: the request's KV was handed over already.
	ErrConsumed = errors.New("lease: the request was consumed")
	// ErrNonce: the nonce is of an earlier request with that ID, or of before a preemption.
	ErrNonce = errors.New("lease: the nonce is not the request's")
	// ErrTakenOver: a newer attempt of the router owns the lease.
	ErrTakenOver = errors.New("lease: a newer attempt owns the lease")
	// ErrHeld: the same attempt is claimed by another reader, which lives.
	ErrHeld = errors.New("lease: another reader of the same attempt holds the lease")
	// ErrMany: the reader claims more requests that have not come than are kept for one peer.
	ErrMany = errors.New("lease: too many claims of requests that have not come")
)
