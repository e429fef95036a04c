package transfer

import (
	"errors"
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// SendConfig fixes one request's send session.
type SendConfig struct {
	Request   string
	Layout    kvcache.Layout
	PromptLen int
	TokenHash [32]byte
	// Pipelined: each chunk's blocks leave when it is computed. Otherwise the whole prompt
	// leaves as one slice when prefill ends (PIPE-26).
	Pipelined bool
	// PartBytes: a pipelined slice leaves in parts while its chunk is computed, layers by layers,
	// whenever so many bytes of a rank's share are due. 0: it leaves whole.
	PartBytes int
	// Timeout is kv_transfer_timeout in nanoseconds: how long nothing may move (PIPE-19).
	Timeout int64
}

// SendStatus is the state of a session, drawn from its slices (PIPE-14).
type SendStatus uint8

// The states of a send session.
const (
	SendInit         SendStatus = iota // no slice, and no receiver yet
	SendReady                          // the receiver has registered
	SendTransferring                   // a slice is in flight
	SendTransferred                    // every slice so far has landed
	SendFullyTransferred
	SendError
)

// Send is the prefill side of one request: it holds the request's blocks by its Ownership,
// turns computed chunks into slices, and copies them to the receiver that registered, whether
// that was before, during or after the computing.
type Send struct {
	cfg    SendConfig
	own    Ownership
	peer   wire.Life
	ranks  *Mapping
	reg    *wire.Register
	slot   uint32 // where a receiver that reads finds nonce
	nonce  uint64
	dst    Destination
	slices []*slice
	sent   int // blocks [0,sent) have been given to slices
	// making is the slice of the chunk that is being computed, whose layers below through are
	// written; nil if none is due, or it is to leave whole.
	making  *slice
	through int
	// computed is set with the last chunk; chunks are no longer counted after.
	computed   bool
	computeEnd int64
	// offered is set when the whole prompt was computed, nobody had registered, and the blocks
	// were taken back: it is computed again if somebody does (PIPE-35).
	offered  bool
	err      error // why the session ended without success
	status   wire.Status
	finished bool // Sent or Failed was given
	drained  bool // the receiver knows that nothing is in flight any more
	dropped  bool // Drop was given
	// active is when the other side last moved, or began to be waited for. Chunks that are
	// computed while a copy is in flight do not count: they say nothing of the copy.
	active   int64
	claimed  int64 // until when somebody claims what nobody has registered for
	progress int64
	spans    busy
	out      []Output
}

// NewSend makes a session that has no receiver yet.
func NewSend(cfg SendConfig, now int64) *Send {
	return &Send{cfg: cfg, active: now, progress: now}
}

// Step takes an event. An event that no longer matters changes nothing.
func (s *Send) Step(now int64, ev SendEvent) {
	switch ev := ev.(type) {
	case ChunkStarted:
		s.own.Use()
		s.chunkStarted(ev)
	case LayersComputed:
		s.layersComputed(now, ev)
	case ChunkComputed:
		s.chunkComputed(now, ev)
	case Registered:
		s.registered(now, ev)
	case Copied:
		s.copied(now, ev)
	case TakenBack:
		s.takenBack(now)
	case Claimed:
		s.claimed = max(s.claimed, ev.Until)
	case Slotted:
		s.slotted(ev)
	case Completed:
		s.completed(ev)
	case Expired:
		s.fail(wire.StatusFailed, ErrLeaseExpired)
	case Withdrawn:
		if s.IsReceiver(ev.Peer, ev.Msg.Epoch) {
			s.fail(wire.StatusCancelled, fmt.Errorf("%w: %s", ErrWithdrawn, ev.Msg.Reason))
		}
	case PeerGone:
		if s.reg != nil && ev.Peer == s.peer {
			s.drained = true // nobody is left to tell
			s.fail(wire.StatusFailed, fmt.Errorf("%w: %w", ErrPeerLost, ev.Err))
		}
	case Cancel:
		status := wire.StatusFailed
		if errors.Is(ev.Cause, ErrCancelled) {
			status = wire.StatusCancelled
		}
		s.fail(status, ev.Cause)
	}
	s.settle()
}

// chunkComputed turns a chunk into a slice. A session that ended sends nothing more; if it
// was cancelled while its last chunk was computing, the record still completes (PIPE-16).
func (s *Send) chunkComputed(now int64, ev ChunkComputed) {
	sl := s.making
	s.making = nil
	s.own.Done()
	if s.spans.open == 0 {
		s.active = now
	}
	if ev.Err != nil {
		s.fail(wire.StatusFailed, ev.Err)
		return
	}
	if ev.Chunk.Last {
		s.computed, s.computeEnd = true, now
	}
	if s.err != nil {
		if ev.Chunk.Last && s.status == wire.StatusCancelled && s.own.Complete() {
			s.emit(Commit{})
		}
		return
	}
	if sl == nil || !sl.left() {
		if sl = s.sliceOf(ev.Chunk, ev.Tables); sl == nil {
			return
		}
		s.append(sl)
	}
	s.own.Acquire()
	if sl.last && s.own.Complete() {
		s.emit(Commit{})
	}
	sl.computed, sl.aux = true, ev.Aux
	s.emit(Record{What: SliceDue, Slice: len(s.slices) - 1})
	if sl.left() {
		s.flow(now, len(s.slices)-1)
		return
	}
	s.dispatch(now)
}

// sliceOf is the slice that a chunk makes due, or nil.
func (s *Send) sliceOf(c kvcache.Chunk, tables []kvcache.BlockTable) *slice {
	if !s.cfg.Pipelined {
		if !c.Last {
			return nil
		}
		c.Start, c.First = 0, true
	}
	span, due := kvcache.ChunkSpan(c, s.cfg.PromptLen, s.cfg.Layout.BlockTokens, s.sent)
	if !due {
		return nil
	}
	return &slice{span: span, tables: tables, last: c.Last}
}

func (s *Send) append(sl *slice) {
	s.slices = append(s.slices, sl)
	s.sent = max(s.sent, sl.span.End)
}

// takenBack forgets the slices that have not left. They are the last ones, for slices leave in
// order as soon as there is a receiver.
func (s *Send) takenBack(now int64) {
	if s.own.InFlight() {
		panic("transfer: blocks in use were taken back")
	}
	for n := len(s.slices); n > 0 && s.slices[n-1].state == sliceDue; n-- {
		s.sent = s.slices[n-1].span.Start
		s.slices = s.slices[:n-1]
	}
	if s.computed {
		s.computed, s.offered, s.active = false, true, now
	}
	s.own.Reopen(len(s.slices) > 0)
}

// fail ends the session, tells the receiver at once, and the owner. The first cause stands.
func (s *Send) fail(status wire.Status, cause error) {
	if s.err != nil || s.finished {
		return
	}
	s.err, s.status, s.finished = cause, status, true
	if s.reg != nil && !s.drained {
		s.drained = s.announces()
		s.emit(Notify{Peer: s.peer, Msg: s.ending(s.drained)})
	}
	s.unannounce()
	s.emit(Failed{Err: &Error{Request: s.cfg.Request, Peer: s.peer, Cause: cause}})
}

// ending is the terminal result; last says that nothing is in flight any more.
func (s *Send) ending(last bool) *wire.Result {
	return &wire.Result{
		Request: s.cfg.Request, Task: s.reg.Task, Epoch: s.reg.Epoch,
		Last: last, Status: s.status, Reason: reason(s.err),
	}
}

// settle releases the blocks of a finished session once nothing is in flight, and tells a
// receiver whose transfer failed that no late write can come.
func (s *Send) settle() {
	if !s.finished || s.own.InFlight() {
		return
	}
	if s.err != nil && s.reg != nil && !s.drained {
		s.drained = true
		s.emit(Notify{Peer: s.peer, Msg: s.ending(true)})
	}
	if s.own.Release() {
		s.emit(Release{})
	}
}

// Deadline is when the session wants to Tick.
func (s *Send) Deadline() int64 {
	switch {
	case s.dropped, s.finished && s.spans.open == 0:
		return Never
	case s.announces() && s.computed:
		return Never // the lease has a clock of its own
	case s.waits() && s.reg == nil:
		return max(s.active+s.cfg.Timeout, s.claimed)
	case s.waits():
		return s.active + s.cfg.Timeout
	case s.reg != nil:
		return s.progress + s.cfg.Timeout/3
	}
	return Never
}

// waits reports whether the session waits for the other side: for a copy in flight, in the
// prefill phase too, or after the last chunk for a receiver. While it only computes, the
// other side waits for it.
func (s *Send) waits() bool { return s.computed || s.offered || s.spans.open > 0 }

// Tick ends a session in which nothing moved for the time-out, and otherwise tells the
// receiver that its request is still in the queue or computing. A copy that is stuck holds
// the blocks of a session that has failed, too, so its connection is closed.
func (s *Send) Tick(now int64) {
	if now < s.Deadline() {
		return
	}
	if !s.waits() {
		s.progress = now
		s.emit(Notify{Peer: s.peer, Msg: &wire.Progress{
			Request: s.cfg.Request, Task: s.reg.Task, Epoch: s.reg.Epoch,
		}})
		return
	}
	cause := fmt.Errorf("%w: the receiver did not register", ErrTimeout)
	if s.spans.open > 0 {
		cause = fmt.Errorf("%w: a write did not land", ErrTimeout)
	}
	s.fail(wire.StatusFailed, cause)
	if s.spans.open > 0 {
		s.dropped = true
		s.emit(Drop{Peer: s.peer, Err: cause})
	}
	s.settle()
}

// Status draws the session's state from its slices (PIPE-14). The aux travels in the last
// slice, so the session is fully transferred when that one has landed too.
func (s *Send) Status() SendStatus {
	if s.err != nil {
		return SendError
	}
	landed, last := 0, false
	for i := range s.slices {
		switch s.slices[i].state {
		case sliceFailed:
			return SendError
		case sliceInFlight:
			return SendTransferring
		case sliceLanded:
			landed++
			last = last || s.slices[i].last
		}
	}
	switch {
	case landed == 0 || landed < len(s.slices):
		if s.reg != nil {
			return SendReady
		}
		return SendInit
	case last:
		return SendFullyTransferred
	}
	return SendTransferred
}

// HasReceiver reports whether a receiver has registered.
func (s *Send) HasReceiver() bool { return s.reg != nil }

// InFlight reports whether a pass or a copy uses the request's blocks.
func (s *Send) InFlight() bool { return s.own.InFlight() }

// Ended reports that the session is over and holds no block any more.
func (s *Send) Ended() bool { return s.own.phase == phaseReleased }

// Err is why the session ended without success, or nil.
func (s *Send) Err() error { return s.err }

// Outputs gives what is to be done since the last call, in order.
func (s *Send) Outputs() []Output {
	out := s.out
	s.out = nil
	return out
}

func (s *Send) emit(o Output) { s.out = append(s.out, o) }

// IsReceiver reports whether a registration of that peer and epoch was accepted.
func (s *Send) IsReceiver(peer wire.Life, epoch uint64) bool {
	return s.reg != nil && peer == s.peer && epoch == s.reg.Epoch
}

func (s *Send) stats() Stats {
	st := Stats{Slices: len(s.slices)}
	for i := range s.slices {
		st.Bytes += s.slices[i].bytes
	}
	st.Busy, st.Exposed = s.spans.split(s.computeEnd)
	st.Hidden = st.Busy - st.Exposed
	return st
}
