package transfer

import "kvferry/wire"

// ReceiveEvent is what can happen to a Receive. It is one of the types below.
type ReceiveEvent interface{ receiveEvent() }

// PeerUp: the sender's handshake succeeded. Writers is the number of its ranks, each of which
// will send at least its last slice; 0 leaves it as configured.
type PeerUp struct {
	Peer    wire.Life
	Writers int
}

// Unreachable: the sender could not be connected to.
type Unreachable struct{ Err error }

// ResultCame: the sender told of a slice, after its bytes had landed, or of the end.
type ResultCame struct {
	Peer wire.Life
	Msg  *wire.Result
}

// ProgressCame: the sender still queues or computes the request.
type ProgressCame struct {
	Peer wire.Life
	Msg  *wire.Progress
}

// Verified ends a Verify with the checksum of what is in our memory.
type Verified struct {
	Slice, Writer int
	Sum           uint32
}

// Revoked ends a Revoke.
type Revoked struct{}

func (PeerUp) receiveEvent()       {}
func (Unreachable) receiveEvent()  {}
func (ResultCame) receiveEvent()   {}
func (ProgressCame) receiveEvent() {}
func (PeerGone) receiveEvent()     {}
func (Cancel) receiveEvent()       {}
func (Verified) receiveEvent()     {}
func (Revoked) receiveEvent()      {}
