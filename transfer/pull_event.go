package transfer

import "kvferry/wire"

// PullEvent is what can happen to a Pull. It is one of Unreachable, PeerGone, Cancel, ResultCame,
// ProgressCame and the types below.
type PullEvent interface{ pullEvent() }

// PullReady: the peer's handshake succeeded, and we have blocks of our own. PoolBlocks[g] is the
// size of its pool, Slots the number of its lease slots, Ranks how its ranks map onto ours; nil
// is one rank on either side.
type PullReady struct {
	Peer       wire.Life
	PoolBlocks []int
	Slots      int
	Ranks      *Mapping
}

// Announced: the peer told of a slice that can be read.
type Announced struct {
	Peer wire.Life
	Msg  *wire.Announce
}

// ReadDone ends a Read. Err nil means that its bytes are in our memory.
type ReadDone struct {
	Slice, Writer int
	Err           error
}

// SlotRead ends a CheckSlot with what the slot held.
type SlotRead struct {
	Writer int
	Value  int64
	Err    error
}

// LeaseRefused: the peer does not, or no longer, honour our claim on the lease.
type LeaseRefused struct{ Reason string }

func (PullReady) pullEvent()    {}
func (Unreachable) pullEvent()  {}
func (Announced) pullEvent()    {}
func (ReadDone) pullEvent()     {}
func (SlotRead) pullEvent()     {}
func (LeaseRefused) pullEvent() {}
func (PeerGone) pullEvent()     {}
func (Cancel) pullEvent()       {}
func (ResultCame) pullEvent()   {}
func (ProgressCame) pullEvent() {}
