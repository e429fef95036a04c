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
)

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
