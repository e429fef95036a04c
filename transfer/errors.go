package transfer

import (
	"errors"
	"fmt"
	"strings"

	"kvferry/wire"
)

// The causes that an Error can wrap.
var (
	// ErrTimeout: nothing moved for kv_transfer_timeout (PIPE-19).
	ErrTimeout = errors.New("transfer timed out")
	// ErrPeerLost: the connection with the peer, or its life, ended.
	ErrPeerLost = errors.New("peer lost")
	// ErrCancelled: the request was cancelled on this side.
	ErrCancelled = errors.New("cancelled")
	// ErrWithdrawn: the receiver took its registration back.
	ErrWithdrawn = errors.New("withdrawn by the receiver")
	// ErrRefused: the registration does not fit the request (PIPE-34).
	ErrRefused = errors.New("registration refused")
	// ErrChecksum: what arrived is not what was sent (PIPE-33).
	ErrChecksum = errors.New("checksum mismatch")
	// ErrProtocol: the peer sent what no correct peer sends.
	ErrProtocol = errors.New("protocol violation")
	// ErrLeaseExpired: nobody read the blocks while their lease lived (LEASE-04).
	ErrLeaseExpired = errors.New("the lease expired")
	// ErrLeaseRefused: the holder does not honour our claim on the lease.
	ErrLeaseRefused = errors.New("the lease is refused")
	// ErrHandle: a handle or an announcement names what its holder, or we, cannot have.
	ErrHandle = errors.New("handle does not fit")
)

// The reasons of a VerifyError. Metrics count by them.
const (
	// ReasonLapsed: the slot holds another number, so the lease ended before the last byte was
	// read.
	ReasonLapsed = "lapsed"
	// ReasonSlotRead: the slot could not be read.
	ReasonSlotRead = "slot read failed"
	// ReasonNoSlot: there is neither a slot nor a nonce, because the holder had none free, or a
	// router dropped both.
	ReasonNoSlot = "no slot"
	// ReasonFields: there is one of slot and nonce without the other.
	ReasonFields = "fields missing"
)

// VerifyError says that KV which was read, or was to be, cannot be proved to be the request's
// (LEASE-17).
type VerifyError struct {
	// Writer is the peer's rank whose slot it was, if it came to that.
	Writer int
	Reason string
	Err    error // why the slot could not be read, or nil
}

func (e *VerifyError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("lease not verified: %s on rank %d: %v", e.Reason, e.Writer, e.Err)
	case e.Reason == ReasonLapsed:
		return fmt.Sprintf("lease not verified: %s on rank %d", e.Reason, e.Writer)
	}
	return "lease not verified: " + e.Reason
}

func (e *VerifyError) Unwrap() error { return e.Err }

// RemoteError is a failure that the sender reported.
type RemoteError struct {
	Status wire.Status
	Reason string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("sender reports %s: %s", e.Status, e.Reason)
}

// Error is the failure of one request's transfer.
type Error struct {
	Request string
	Peer    wire.Life // zero before a peer is known
	Cause   error
}

func (e *Error) Error() string {
	if e.Peer == (wire.Life{}) {
		return fmt.Sprintf("transfer of request %s: %v", e.Request, e.Cause)
	}
	return fmt.Sprintf("transfer of request %s with peer %s: %v", e.Request, e.Peer, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// maxReason bounds what a reason may add to a frame, in bytes.
const maxReason = 512

// reason is an error as it travels.
func reason(err error) string {
	s := err.Error()
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}
