package engine

import (
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// Event is what can happen to an engine. It is one of the types below.
type Event interface{ event() }

// Submit brings a request. Finish follows exactly once.
type Submit struct{ Request Request }

// Abort cancels a request, if it is still here: its client left, or its router gave up.
type Abort struct {
	ID    string
	Cause error
}

// LayersComputed tells of the pass that is out: of its Batch[i] all layers of the model below
// Through[i] are written. It may come at any time, or not at all; of a pass that has ended it
// changes nothing.
type LayersComputed struct {
	Pass    uint64
	Through []int
}

// Computed ends a Compute: Results has one entry for each Work that wanted a sample, in
// order. Err says that the whole pass failed.
type Computed struct {
	Results []Sampled
	Err     error
}

// PeerUp: a peer's handshake succeeded; Addr is what Connect was given, if it was us who
// connected. PoolBlocks[g] is the size of its pool of layer group g, Parallel how it is cut into
// ranks; zero is one rank.
type PeerUp struct {
	Addr       string
	Peer       wire.Life
	PoolBlocks []int
	Parallel   kvcache.Parallel
	// Slots is the number of its lease slots, LeaseDuration its kv_lease_duration in
	// nanoseconds.
	Slots         int
	LeaseDuration int64
}

// ConnectFailed: a peer could not be reached, or refused us.
type ConnectFailed struct {
	Addr string
	Err  error
}

// PeerLost: the connection with a peer is gone, after every copy in flight with it has ended.
type PeerLost struct {
	Peer wire.Life
	Err  error
}

// Message came from a peer.
type Message struct {
	Peer wire.Life
	Msg  wire.Message
}

// Forget gives up a lease that nobody will take.
type Forget struct {
	Request string
	Nonce   uint64
}

// CopyDone ends a Copy or a Read.
type CopyDone struct {
	ID  uint64
	Err error
}

// SlotsRead ends a ReadSlots: Values has what is in each slot.
type SlotsRead struct {
	ID     uint64
	Values []int64
	Err    error
}

// Verified ends a Verify with the checksum of what is in our memory.
type Verified struct {
	Epoch         uint64
	Slice, Writer int
	Sum           uint32
}

// EpochRevoked ends a Revoke.
type EpochRevoked struct{ Epoch uint64 }

func (Submit) event()         {}
func (Abort) event()          {}
func (Computed) event()       {}
func (LayersComputed) event() {}
func (PeerUp) event()         {}
func (ConnectFailed) event()  {}
func (PeerLost) event()       {}
func (Message) event()        {}
func (Forget) event()         {}
func (CopyDone) event()       {}
func (SlotsRead) event()      {}
func (Verified) event()       {}
func (EpochRevoked) event()   {}

// Output is what the shell must do: one of the types below, or transfer.Grant,
// transfer.Revoke, transfer.Drop or transfer.Notify as they are.
type Output any

// Compute runs one forward pass; Computed must come back. There is at most one at a time, each
// with a number of its own.
type Compute struct {
	Pass  uint64
	Batch []Work
}

// Work is one request's share of a pass: Tokens from position Start on. Sample, if not nil,
// asks for a token after the last of them.
type Work struct {
	Request string
	Tokens  []int32
	Start   int
	Tables  []kvcache.BlockTable
	// Copies are made before the pass.
	Copies []kvcache.BlockCopy
	Sample *SampleSpec
	// Layers: LayersComputed has a use for the work, whose KV may leave layer by layer.
	Layers bool
}

// SampleSpec is how the token at Position is drawn.
type SampleSpec struct {
	Sampling Sampling
	Position int
	Logprobs int
}

// Connect asks for a connection with the engine at Addr.
type Connect struct{ Addr string }

// Copy is transfer.Copy with the ID that CopyDone must bring back.
type Copy struct {
	ID uint64
	transfer.Copy
}

// Read is transfer.Read with the ID that CopyDone must bring back: what a peer's rank Writer has
// of the blocks comes into ours, which no pass uses meanwhile.
type Read struct {
	ID uint64
	transfer.Read
}

// ReadSlots reads lease slots of a peer's rank; SlotsRead must come back.
type ReadSlots struct {
	ID     uint64
	Peer   wire.Life
	Writer int
	Slots  []int
}

// SetSlot stores a nonce in a lease slot of ours, on every rank, or 0. It is done before any
// output that follows.
type SetSlot struct {
	Slot  int
	Value uint64
}

// Verify is transfer.Verify with the epoch that Verified must bring back.
type Verify struct {
	Epoch uint64
	transfer.Verify
}

// Token is one more token of an answer. Text is what can be shown now: it may lag behind the
// tokens while it could be the beginning of a stop string, and may split a character.
type Token struct {
	Request string
	Sampled Sampled
	Text    []byte
}

// Finish ends a request, exactly once. Err nil is success: Reason is then set for an answer
// (not for a PrefillLeg), and Text is what was still held back of it.
type Finish struct {
	Request    string
	Reason     FinishReason
	Err        error
	Text       []byte
	Prompt     int // tokens
	Cached     int // of them, not computed for this request
	Completion int // tokens
	// Prefill is how long the prompt's computing took, in nanoseconds from its first pass to
	// its last, or 0 if it was not computed here.
	Prefill int64
	// Transfer is what a leg's transfer took.
	Transfer transfer.Stats
	// Handle is how another engine can read the request's KV, if it is held for one. Life and
	// Addr are the shell's to fill in.
	Handle *Handle
	// First is the token that a prompt which is held for another engine ends in; that one draws
	// it again.
	First *Sampled
}

// Record is something worth remembering about a request.
type Record struct {
	Request string
	transfer.Record
}
