package transfer

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// ReceiveConfig fixes one request's receive session.
type ReceiveConfig struct {
	Request string
	// Task is this receive's index on our side, and Epoch its receive epoch, never used before.
	Task      uint32
	Epoch     uint64
	Layout    kvcache.Layout
	PromptLen int
	TokenHash [32]byte
	// DstStart is the number of prompt tokens whose KV we hold already.
	DstStart int
	// Tables are the request's block tables, which may reach past the prompt.
	Tables []kvcache.BlockTable
	// Writers is the number of sending ranks if PeerUp does not tell it.
	Writers int
	// Checksum: no slice counts before the checksum of what it brought was compared (PIPE-33).
	Checksum bool
	// Fencing: the agent can refuse late writes. Without it the blocks of an abandoned receive
	// stay until the writer has confirmed or its life has ended (PIPE-32).
	Fencing bool
	// Timeout is kv_transfer_timeout in nanoseconds.
	Timeout int64
}

// Receive is the decode side of one request: it posts ONE receive for the whole prompt and
// completes when every slice of every expected writer has landed, in whatever order their
// results come (PIPE-02, PIPE-13).
type Receive struct {
	cfg       ReceiveConfig
	phase     receivePhase
	peer      wire.Life
	reg       *wire.Register
	writers   []writer
	held      map[[2]int]*wire.Result // results whose bytes are being verified, by writer and slice
	aux       *wire.Aux
	bytes     uint64
	confirmed bool // the writer has nothing in flight any more
	revoked   bool
	active    int64
	out       []Output
}

type receivePhase uint8

const (
	receiveConnecting receivePhase = iota // no peer yet
	receivePosted                         // registered, waiting for slices
	receiveClosing                        // whole; the epoch is being closed
	receiveFailing                        // failed; the epoch is being closed
	receiveEnded
)

// writer is what is known of one sending rank's slices.
type writer struct {
	landed []bool // by slice index
	n      int    // how many of them are true
	count  int    // how many there are in all; -1 until the last slice tells
}

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

// NewReceive makes a session that waits for its peer's connection.
func NewReceive(cfg ReceiveConfig, now int64) *Receive {
	return &Receive{cfg: cfg, active: now, held: map[[2]int]*wire.Result{}}
}

// Step takes an event. An event that no longer matters changes nothing.
func (r *Receive) Step(now int64, ev ReceiveEvent) {
	switch ev := ev.(type) {
	case PeerUp:
		if r.phase == receiveConnecting {
			r.expect(ev.Writers)
			r.post(now, ev.Peer)
		}
	case Unreachable:
		if r.phase == receiveConnecting {
			r.fail(fmt.Errorf("%w: %w", ErrPeerLost, ev.Err))
		}
	case ResultCame:
		if r.isOurs(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) {
			r.result(now, ev.Msg)
		}
	case ProgressCame:
		if r.isOurs(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) {
			r.active = now
		}
	case PeerGone:
		r.peerGone(ev)
	case Cancel:
		r.fail(ev.Cause)
	case Verified:
		r.verified(ev)
	case Revoked:
		r.revoked = true
	}
	r.settle()
}

// expect makes a set for each writer.
func (r *Receive) expect(writers int) {
	if writers == 0 {
		writers = r.cfg.Writers
	}
	r.writers = make([]writer, writers)
	for i := range r.writers {
		r.writers[i].count = -1
	}
}

// post grants the blocks and registers the one receive, even when every block is here
// already: the aux still has to come.
func (r *Receive) post(now int64, peer wire.Life) {
	r.phase, r.peer, r.active = receivePosted, peer, now
	reg := &wire.Register{
		Request: r.cfg.Request, Task: r.cfg.Task, Epoch: r.cfg.Epoch,
		PromptLen: uint32(r.cfg.PromptLen), TokenHash: r.cfg.TokenHash, DstStart: uint32(r.cfg.DstStart),
	}
	reg.Checksum = r.cfg.Checksum
	grant := Grant{Epoch: r.cfg.Epoch, Peer: peer}
	for g, t := range r.cfg.Tables {
		blocks := r.wanted(g, t)
		ids := make([]int32, len(blocks))
		for i, b := range blocks {
			ids[i] = int32(b)
		}
		grant.Blocks = append(grant.Blocks, blocks)
		reg.Blocks = append(reg.Blocks, ids)
	}
	r.reg = reg
	r.emit(grant)
	r.emit(Notify{Peer: peer, Msg: reg})
}

// wanted are the blocks of a group that are to be written: from what we hold already, which
// others may share, exactly to the prompt's last block, never those reserved for what is
// decoded (PIPE-10).
func (r *Receive) wanted(g int, t kvcache.BlockTable) []kvcache.BlockID {
	if r.cfg.Layout.Groups[g].Recurrent() {
		return t.Blocks
	}
	total := r.cfg.Layout.TotalBlocks(r.cfg.PromptLen)
	held := r.cfg.DstStart / r.cfg.Layout.BlockTokens
	if r.cfg.DstStart >= r.cfg.PromptLen {
		held = total
	}
	return kvcache.Project(t.Blocks, t.End(), kvcache.Span{Start: held, End: total})
}

// result counts a slice. The first terminal state stands: nothing counts after it.
func (r *Receive) result(now int64, m *wire.Result) {
	if m.Status != wire.StatusOK && m.Last {
		r.confirmed = true
	}
	if r.phase == receiveFailing && m.Status == wire.StatusOK {
		r.late(m)
	}
	if r.phase != receivePosted {
		return
	}
	r.active = now
	if m.Status != wire.StatusOK {
		r.fail(&RemoteError{Status: m.Status, Reason: m.Reason})
		return
	}
	if r.cfg.Checksum && m.Bytes > 0 && int(m.Writer) < len(r.writers) {
		r.verify(m)
		return
	}
	r.land(m)
}

// verify asks for the checksum of what a slice brought.
func (r *Receive) verify(m *wire.Result) {
	r.held[[2]int{int(m.Writer), int(m.Slice)}] = m
	r.emit(Verify{
		Slice: int(m.Slice), Writer: int(m.Writer), Peer: r.peer,
		Groups: Arrived(r.cfg.Layout, r.cfg.PromptLen, kvcache.Span{Start: int(m.Start), End: int(m.End)}, destination(r.reg)),
	})
}

// verified counts a slice whose bytes are what the sender read, and fails the load otherwise.
func (r *Receive) verified(ev Verified) {
	key := [2]int{ev.Writer, ev.Slice}
	m := r.held[key]
	delete(r.held, key)
	switch {
	case m == nil:
	case r.phase == receiveFailing:
		r.late(m)
	case r.phase != receivePosted:
	case m.Checksum != ev.Sum:
		r.fail(fmt.Errorf("%w: slice %d of rank %d: %08x was sent and %08x is here",
			ErrChecksum, ev.Slice, ev.Writer, m.Checksum, ev.Sum))
		r.late(m) // wrong as it is, its sender is done with it
	default:
		r.land(m)
	}
}

// land counts a slice whose bytes are here and right.
func (r *Receive) land(m *wire.Result) {
	if err := r.count(m); err != nil {
		r.fail(fmt.Errorf("%w: %w", ErrProtocol, err))
		return
	}
	switch {
	case !r.whole():
	case r.aux == nil:
		r.fail(fmt.Errorf("%w: every slice is here and the aux is not", ErrProtocol))
	default:
		r.phase = receiveClosing
		r.emit(Revoke{Epoch: r.cfg.Epoch})
	}
}

// late counts a slice of an abandoned receive: a sender that had sent everything before it
// heard of that has nothing left to answer, and its last slice is the confirmation.
func (r *Receive) late(m *wire.Result) {
	if r.count(m) == nil && r.whole() {
		r.confirmed = true
	}
}

// count adds a slice to its writer's set; a duplicate does no harm.
func (r *Receive) count(m *wire.Result) error {
	if int(m.Writer) >= len(r.writers) {
		return fmt.Errorf("writer %d of %d", m.Writer, len(r.writers))
	}
	w := &r.writers[m.Writer]
	i := int(m.Slice)
	// Each slice but the last carries at least one block.
	if most := r.cfg.Layout.TotalBlocks(r.cfg.PromptLen) + 1; i >= most {
		return fmt.Errorf("slice %d of a prompt that has at most %d", i, most)
	}
	if m.Last {
		if (w.count >= 0 && w.count != int(m.Count)) || i != int(m.Count)-1 {
			return fmt.Errorf("slice %d is the last of %d", i, m.Count)
		}
		w.count = int(m.Count)
	}
	for len(w.landed) <= i {
		w.landed = append(w.landed, false)
	}
	if w.count >= 0 && len(w.landed) > w.count {
		return fmt.Errorf("slice %d of %d", len(w.landed)-1, w.count)
	}
	if !w.landed[i] {
		w.landed[i] = true
		w.n++
		r.bytes += m.Bytes
		r.emit(Record{What: SliceLanded, Slice: i, Bytes: m.Bytes})
	}
	if m.Aux != nil {
		r.aux = m.Aux
	}
	return nil
}

// whole reports whether every slice of every writer is here.
func (r *Receive) whole() bool {
	for _, w := range r.writers {
		if w.count < 0 || w.n < w.count {
			return false
		}
	}
	return true
}

func (r *Receive) peerGone(ev PeerGone) {
	if r.phase == receiveConnecting || ev.Peer != r.peer {
		return
	}
	r.confirmed = true
	if r.phase == receivePosted {
		r.fail(fmt.Errorf("%w: %w", ErrPeerLost, ev.Err))
	}
}

// fail ends the session: the owner is told at once, the sender too if it may not know, and
// the epoch is closed before the blocks are released.
func (r *Receive) fail(cause error) {
	was := r.phase
	if was == receiveFailing || was == receiveEnded {
		return
	}
	r.phase = receiveFailing
	r.emit(Failed{Err: &Error{Request: r.cfg.Request, Peer: r.peer, Cause: cause}})
	switch was {
	case receiveConnecting:
		r.revoked, r.confirmed = true, true // nobody knows of the blocks
		return
	case receiveClosing:
		r.confirmed = true // everything has landed, and the epoch is being closed already
		return
	}
	if !r.confirmed {
		r.emit(Notify{Peer: r.peer, Msg: &wire.Withdraw{
			Request: r.cfg.Request, Epoch: r.cfg.Epoch, Reason: reason(cause),
		}})
	}
	r.emit(Revoke{Epoch: r.cfg.Epoch})
}

// settle ends a session whose epoch is closed. Only then is the KV used, or are the blocks of
// an abandoned receive given back.
func (r *Receive) settle() {
	if !r.revoked {
		return
	}
	switch r.phase {
	case receiveClosing:
		r.phase = receiveEnded
		r.emit(Received{Aux: *r.aux, Stats: r.stats()})
	case receiveFailing:
		if r.cfg.Fencing || r.confirmed {
			r.phase = receiveEnded
			r.emit(Release{})
		}
	}
}

func (r *Receive) stats() Stats {
	st := Stats{Bytes: r.bytes}
	for _, w := range r.writers {
		st.Slices += w.n
	}
	return st
}

// Deadline is when the session wants to Tick. A closing epoch needs no time-out: the agent
// answers for it.
func (r *Receive) Deadline() int64 {
	if r.phase == receiveConnecting || r.phase == receivePosted {
		return r.active + r.cfg.Timeout
	}
	return Never
}

// Tick ends a session in which nothing moved for the time-out (PIPE-19).
func (r *Receive) Tick(now int64) {
	if now < r.Deadline() {
		return
	}
	if r.phase == receiveConnecting {
		r.fail(fmt.Errorf("%w: no connection with the sender", ErrTimeout))
	} else {
		r.fail(fmt.Errorf("%w: the sender is silent", ErrTimeout))
	}
	r.settle()
}

// Ended reports that the session is over: the blocks are the owner's, or released.
func (r *Receive) Ended() bool { return r.phase == receiveEnded }

// Peer is the sender's life; zero before it is up.
func (r *Receive) Peer() wire.Life { return r.peer }

// Outputs gives what is to be done since the last call, in order.
func (r *Receive) Outputs() []Output {
	out := r.out
	r.out = nil
	return out
}

func (r *Receive) emit(o Output) { r.out = append(r.out, o) }

// isOurs says whether a message is about this receive. The epoch alone would not do: each life
// of ours counts its own, and a sender that outlives one may still speak of what it had.
func (r *Receive) isOurs(peer wire.Life, request string, epoch uint64) bool {
	return r.phase != receiveConnecting && peer == r.peer && request == r.cfg.Request && epoch == r.cfg.Epoch
}
