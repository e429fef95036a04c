package transfer

import (
	"kvferry/kvcache"
	"kvferry/wire"
)

// Output is something that the shell must do. It is one of the types below.
type Output interface{ output() }

// Copy writes a rank's share of blocks into the receiver's memory and delivers Notice after the
// last byte; Copied with the same Slice and Writer must come back. A copy may have no bytes:
// then only the notice goes.
type Copy struct {
	Slice, Writer int
	Peer          wire.Life
	Epoch         uint64
	Groups        []GroupCopy
	// Layers are those of the model that are copied, as Mapping.Part has it. The copies of a slice
	// that leaves in parts follow each other from layer 0 on.
	Layers kvcache.Span
	// Checksum asks for the CRC-32C of all layers of the blocks, in the order of the groups, their
	// blocks and the mapping's pieces, in Notice.Checksum (PIPE-33).
	Checksum bool
	// Notice comes with the last copy of the slice, which is put out when the others have landed.
	// It is nil before.
	Notice *wire.Result
}

// Verify asks for the CRC-32C of what a slice of the peer's rank Writer brought, in the order in
// which Copy sums it up; Verified must come back.
type Verify struct {
	Slice, Writer int
	Peer          wire.Life
	Groups        []GroupCopy // destinations only
}

// Notify sends a message alone.
type Notify struct {
	Peer wire.Life
	Msg  wire.Message
}

// Commit says that every block of the prompt is computed: they may enter the prefix index. It
// comes before the last slice's Copy (PIPE-15).
type Commit struct{}

// Release gives the request's blocks back to their pool. It comes exactly once.
type Release struct{}

// Drop closes the connection with a peer, because a write to it is stuck.
type Drop struct {
	Peer wire.Life
	Err  error
}

// Grant opens a receive epoch for a peer: it may write into these blocks, Blocks[g] of layer
// group g.
type Grant struct {
	Epoch  uint64
	Peer   wire.Life
	Blocks [][]kvcache.BlockID
}

// Revoke closes a receive epoch; Revoked must come back when no further byte can land.
type Revoke struct{ Epoch uint64 }

// Sent says that all slices and the aux landed: the transfer succeeded.
type Sent struct{ Stats Stats }

// Received says that the prompt's KV is whole and the epoch closed: decode may begin.
type Received struct {
	Aux   wire.Aux
	Stats Stats
}

// Offered says that the prompt is computed and its blocks may be read: the owner grants the
// lease and answers with the handle. Tables are the prompt's blocks, as they stay until Release.
type Offered struct {
	Tables []kvcache.BlockTable
	Aux    *wire.Aux
}

// Read copies the part that the peer's rank Writer has of blocks: Src are the peer's and Dst
// ours. ReadDone with the same Slice and Writer must come back. It carries no notice (LEASE-15).
type Read struct {
	Slice, Writer int
	Peer          wire.Life
	Groups        []GroupCopy
}

// CheckSlot reads a lease slot of the peer's rank Writer; SlotRead must come back. It comes when
// every block of every rank is here, and may share a READ with those of other requests.
type CheckSlot struct {
	Peer         wire.Life
	Writer, Slot int
}

// Pulled says that the KV is here and, if it was to be verified, proved. Aux is nil with a
// handle.
type Pulled struct {
	Aux   *wire.Aux
	Stats Stats
}

// Unusable says that the KV did not come and that nothing is read into the blocks any more:
// they stay the owner's, which computes the prompt itself.
type Unusable struct{ Err error }

// Failed says that the transfer ended without success. It comes at most once, and neither
// Sent, Received, Pulled nor Unusable comes with it.
type Failed struct{ Err error }

// Record is an event worth remembering, for traces and metrics.
type Record struct {
	What  What
	Slice int
	Bytes uint64
}

// What a Record tells of.
type What uint8

// The records.
const (
	SliceDue    What = iota + 1 // a slice's blocks are computed
	SlicePosted                 // the first of its copies is out
	SliceLanded                 // on the sender: acknowledged; on the receiver: its result came, or it is read
)

func (Copy) output()      {}
func (Verify) output()    {}
func (Notify) output()    {}
func (Commit) output()    {}
func (Release) output()   {}
func (Drop) output()      {}
func (Grant) output()     {}
func (Revoke) output()    {}
func (Sent) output()      {}
func (Received) output()  {}
func (Offered) output()   {}
func (Read) output()      {}
func (CheckSlot) output() {}
func (Pulled) output()    {}
func (Unusable) output()  {}
func (Failed) output()    {}
func (Record) output()    {}

// Stats is what a finished transfer took. Times are nanoseconds of the owner's clock.
type Stats struct {
	Slices int
	Bytes  uint64
	// Busy is how long at least one slice, or a part of one, was in flight.
	Busy int64
	// Hidden is the part of Busy that passed while the prompt was still being computed;
	// Exposed is the rest, which the first token had to wait for (PIPE-27).
	Hidden, Exposed int64
}
