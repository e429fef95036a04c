package transfer

import (
	"kvferry/kvcache"
	"kvferry/wire"
)

// SendEvent is what can happen to a Send. It is one of the types below.
type SendEvent interface{ sendEvent() }

// ChunkStarted: a forward pass will now compute a chunk and write the request's blocks, which
// Tables name as they stay until Release.
type ChunkStarted struct {
	Chunk  kvcache.Chunk
	Tables []kvcache.BlockTable
}

// LayersComputed: of the chunk that is being computed all layers of the model below Through are
// in the blocks, and so is all that was computed before it.
type LayersComputed struct{ Through int }

// ChunkComputed ends what ChunkStarted began, with the same chunk and tables. Aux comes with the last chunk. Err says that the pass failed.
type ChunkComputed struct {
	Chunk  kvcache.Chunk
	Tables []kvcache.BlockTable
	Aux    *wire.Aux
	Err    error
}

// Registered: a receiver posted its receive. PoolBlocks[g] is the size of its pool, Ranks how
// our ranks map onto its; nil is one rank on either side. Slot and Nonce are the request's; a
// receiver that reads is refused if HasSlot is false, because none is free. With nonce 0 the
// request is not scheduled yet, and Slotted tells of both.
type Registered struct {
	Peer       wire.Life
	Msg        *wire.Register
	PoolBlocks []int
	Ranks      *Mapping
	HasSlot    bool
	Slot       uint32
	Nonce      uint64
}

// Slotted: the request was scheduled, perhaps anew, and has this lease slot with this nonce in it.
// It comes before the first chunk that is computed under it.
type Slotted struct {
	Slot  uint32
	Nonce uint64
}

// Claimed: whoever will register claims the request's lease until an instant, on our clock. It
// queues for longer than the time-out, perhaps, and is waited for (LEASE-05).
type Claimed struct{ Until int64 }

// Copied ends a Copy. Err nil means that it landed.
type Copied struct {
	Slice, Writer int
	Err           error
}

// TakenBack: the request's blocks were given to others before anything of them was in flight.
// What is computed is to be computed again, from the start or from what is cached; what was
// sent stays sent (PIPE-03).
type TakenBack struct{}

// Withdrawn: the receiver took its registration back.
type Withdrawn struct {
	Peer wire.Life
	Msg  *wire.Withdraw
}

// PeerGone: the connection with a peer is lost; the copies in flight with it have ended.
type PeerGone struct {
	Peer wire.Life
	Err  error
}

// Cancel: the request is cancelled on this side, or has failed there for the cause given.
type Cancel struct{ Cause error }

func (ChunkStarted) sendEvent()   {}
func (LayersComputed) sendEvent() {}
func (ChunkComputed) sendEvent()  {}
func (Registered) sendEvent()     {}
func (Slotted) sendEvent()        {}
func (Claimed) sendEvent()        {}
func (Copied) sendEvent()         {}
func (TakenBack) sendEvent()      {}
func (Withdrawn) sendEvent()      {}
func (PeerGone) sendEvent()       {}
func (Cancel) sendEvent()         {}
func (Completed) sendEvent()      {}
func (Expired) sendEvent()        {}
