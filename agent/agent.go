// Package agent is the contract of a one-sided transfer agent: it registers
// memory, writes into and reads from a peer's registered memory, and delivers
// small notices. Implementations are in the folders below it.
package agent

import (
	"context"

	"kvferry/wire"
)

// Region numbers one piece of registered memory, from 0 in order of registration.
type Region uint32

// Desc is a range of a region, in bytes.
type Desc struct {
	Region Region
	Offset uint64
	Length uint64
}

// List is a descriptor list, prepared once and indexed by each transfer. It is not changed
// after it was made. (A List is plain data so that a peer's and our own look alike.)
type List []Desc

// Transfer is one asynchronous write or read: for each i the bytes of Local[LocalIdx[i]] and
// Remote[RemoteIdx[i]], which have the same length. Its slices are not changed until Done.
type Transfer struct {
	// ID comes back in Done. It is the caller's, unique among its transfers in flight.
	ID        uint64
	Peer      wire.Life
	Local     List
	LocalIdx  []int32
	Remote    List
	RemoteIdx []int32
	// Epoch is the receive epoch that the peer granted; a write without a grant is refused. A
	// read needs none.
	Epoch uint64
	// Notice, when not nil, is delivered to the peer after the last byte of a write.
	Notice []byte
}

// Capabilities says what an agent can do. They are asked, not assumed.
type Capabilities struct {
	// OneSidedWrite: Write lands in the peer's memory without the peer's engine.
	OneSidedWrite bool
	// OneSidedRead: Read likewise.
	OneSidedRead bool
	// Fencing: Revoke refuses late writes. Without it a revoked receive's blocks must be
	// quarantined, and Write and Notify must speak on the connection whose PeerUp was taken
	// from Events last: an owner that has not taken a PeerLost yet would write over a newer
	// connection what was agreed on the old one, and nothing could refuse it.
	Fencing bool
}

// Agent is one process's end of all its transfers. All methods are safe for concurrent use,
// none blocks on a peer, and everything that happens later comes out of Events.
type Agent interface {
	Capabilities() Capabilities
	// Register makes memory readable by peers, and writable where an epoch grants it.
	Register(mem []byte) (Region, error)
	// Start begins to accept peers as hello describes us; regions are registered before.
	Start(hello wire.Hello) error
	// Addr is where peers connect to, host:port or the agent's own form.
	Addr() string
	// Connect makes a connection and shakes hands in the background: PeerUp or ConnectFailed
	// follows. Connecting to a peer that is up gives PeerUp again.
	Connect(addr string)
	// Write and Read start a transfer; Done follows exactly once, whatever happens.
	Write(t Transfer)
	Read(t Transfer)
	// Notify sends a small message alone; it is lost only with the connection. It never
	// waits behind bulk. The payload is copied. Messages alone arrive in order, and so do the
	// notices of one epoch's writes.
	Notify(peer wire.Life, payload []byte)
	// Grant opens a receive epoch: its peer may write into these ranges, and no others. An
	// epoch's number is not used twice.
	Grant(epoch uint64, peer wire.Life, ranges []Desc)
	// Revoke closes a receive epoch. Revoked follows once no further byte can land: a frame
	// that is being received is finished, or its connection closed.
	Revoke(epoch uint64)
	// Drop closes the connections with a peer; PeerLost follows if it was up.
	Drop(peer wire.Life, cause error)
	// Events is closed after Close and is read until then. The reader must keep up: agents
	// queue without bound but in order.
	Events() <-chan Event
	// Close ends every connection and waits until no registered byte is touched any more.
	Close(ctx context.Context) error
}

// Event is one of the types below.
type Event interface{ event() }

// PeerUp says that a peer's handshake succeeded: identity is equal, geometry is in Hello.
type PeerUp struct {
	// Addr is what Connect was given, or empty when the peer connected to us.
	Addr  string
	Hello wire.Hello
}

// ConnectFailed says that Connect could not reach the peer, or that it was refused.
type ConnectFailed struct {
	Addr string
	Err  error
}

// PeerLost says that the connections with a peer are gone. Transfers in flight with it
// have each given Done with an error before, and nothing of its will land after.
type PeerLost struct {
	Peer wire.Life
	Err  error
}

// Done ends a transfer. Err nil means that a write's bytes landed in the peer's memory, or
// that a read's bytes are in ours. After Done the local blocks are no longer touched.
type Done struct {
	ID  uint64
	Err error
}

// Notice is a message from a peer, with Notify or after a write's bytes landed.
type Notice struct {
	Peer    wire.Life
	Payload []byte
}

// Revoked says that no further byte of the epoch can land.
type Revoked struct{ Epoch uint64 }

func (PeerUp) event()        {}
func (ConnectFailed) event() {}
func (PeerLost) event()      {}
func (Done) event()          {}
func (Notice) event()        {}
func (Revoked) event()       {}
