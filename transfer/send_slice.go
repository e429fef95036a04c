package transfer

import (
	"kvferry/kvcache"
	"kvferry/wire"
)

// slice is the blocks that leave after one chunk.
type slice struct {
	span   kvcache.Span
	tables []kvcache.BlockTable
	last   bool
	// computed: the whole of the chunk is, not only some layers of it.
	computed bool
	aux      *wire.Aux
	state    sliceState
	bytes    uint64
	plan     []GroupCopy // once there is a receiver
	shares   []share     // by writer, once it is in flight to a receiver that is written to
}

// share is what one rank writes of a slice.
type share struct {
	owed   bool // there is something to write, or to say
	layers int  // of the model; those below are written, or in flight
	flying int  // copies
	closed bool // the one with the result is out
}

type sliceState uint8

const (
	sliceDue sliceState = iota
	sliceInFlight
	sliceLanded
	sliceFailed
)

// left reports whether anything of the slice has left.
func (sl *slice) left() bool { return sl.state != sliceDue }

// landed reports whether every share was written and its result is with the receiver.
func (sl *slice) landed() bool {
	for _, sh := range sl.shares {
		if sh.owed && (!sh.closed || sh.flying > 0) {
			return false
		}
	}
	return true
}

// dispatch posts every slice that has not left, oldest first. A slice is in flight from its first
// copy on, before any wait that this does (PIPE-17).
func (s *Send) dispatch(now int64) {
	if s.reg == nil || s.err != nil {
		return
	}
	for i, sl := range s.slices {
		if sl.left() {
			continue
		}
		if !s.launch(i) {
			return
		}
		s.flow(now, i)
	}
}

// planned makes a slice's plan, if it has none yet. What cannot be planned fails the session.
func (s *Send) planned(sl *slice) bool {
	if sl.plan != nil {
		return true
	}
	plan, err := Plan(s.cfg.Layout, s.cfg.PromptLen, sl.span, sl.tables, s.dst)
	if err == nil && s.announces() && s.nonce == 0 {
		err = errNoSlot
	}
	if err != nil {
		s.fail(wire.StatusFailed, err)
		return false
	}
	sl.plan = plan
	return true
}

// launch puts slice i in flight: by every rank that owes a part of it. A rank that owes the
// receiver nothing at all sends its last slice only, empty, so that the receiver hears from
// everyone.
func (s *Send) launch(i int) bool {
	sl := s.slices[i]
	if !s.planned(sl) {
		return false
	}
	sl.state = sliceInFlight
	for w := range s.ranks.Writers() {
		sl.bytes += s.ranks.Bytes(w, sl.plan)
	}
	s.emit(Record{What: SlicePosted, Slice: i, Bytes: sl.bytes})
	if s.announces() {
		s.announce(i, sl.plan)
		return true
	}
	sl.shares = make([]share, s.ranks.Writers())
	for w := range sl.shares {
		sl.shares[w].owed = s.ranks.Owes(w) || sl.last
	}
	return true
}

// flow posts what is due of slice i: the rest of a computed one with its result, if nothing of
// the rank's share is still in flight, for no agent promises that two writes land in order; or
// layers of one that is being computed.
func (s *Send) flow(now int64, i int) {
	sl := s.slices[i]
	for w := range sl.shares {
		sh := &sl.shares[w]
		switch {
		case !sh.owed || sh.closed:
		case sl.computed && sh.flying == 0:
			sh.closed = true
			c := s.copyOf(i, w, layersOf(s.cfg.Layout))
			c.Groups, c.Checksum, c.Notice = sl.plan, s.reg.Checksum, s.result(i, w, sl.plan)
			s.post(now, c)
		case !sl.computed && s.partDue(sl, w, sh.layers):
			c := s.copyOf(i, w, s.through)
			c.Groups = s.early(sl, w, c.Layers)
			s.post(now, c)
		}
	}
}

// copyOf is the copy of a rank's share up to a layer.
func (s *Send) copyOf(i, w, through int) Copy {
	sh := &s.slices[i].shares[w]
	c := Copy{
		Slice: i, Writer: w, Peer: s.peer, Epoch: s.reg.Epoch,
		Layers: kvcache.Span{Start: sh.layers, End: through},
	}
	sh.layers = through
	return c
}

func (s *Send) post(now int64, c Copy) {
	s.slices[c.Slice].shares[c.Writer].flying++
	s.own.Use()
	if s.spans.open == 0 {
		s.active = now
	}
	s.spans.begin(now)
	s.emit(c)
}

// result is a writer's notice of slice i. The last carries the count, so the receiver needs no
// order (PIPE-13), and that of writer 0 the aux (PIPE-20).
func (s *Send) result(i, w int, plan []GroupCopy) *wire.Result {
	sl := s.slices[i]
	r := &wire.Result{
		Request: s.cfg.Request, Task: s.reg.Task, Epoch: s.reg.Epoch, Writer: uint16(w),
		Slice: uint32(i), Last: sl.last, Status: wire.StatusOK, Bytes: s.ranks.Bytes(w, plan),
		Start: uint32(sl.span.Start), End: uint32(sl.span.End),
	}
	if !s.ranks.Owes(w) {
		r.Slice = 0
	}
	if sl.last {
		r.Count = r.Slice + 1
		if w == 0 {
			r.Aux = sl.aux
		}
	}
	return r
}

func (s *Send) copied(now int64, ev Copied) {
	sl := s.slices[ev.Slice]
	if sl.shares == nil || sl.shares[ev.Writer].flying == 0 {
		panic("transfer: a copy ended twice")
	}
	sh := &sl.shares[ev.Writer]
	sh.flying--
	s.own.Done()
	s.spans.end(now)
	s.active = now
	if ev.Err != nil {
		sl.state = sliceFailed
		s.fail(wire.StatusFailed, ev.Err)
	}
	switch {
	case sl.state == sliceFailed:
	case sl.landed():
		s.sliceLanded(ev.Slice)
	case !sh.closed:
		s.partLanded(now, ev.Slice)
	}
}

func (s *Send) sliceLanded(i int) {
	sl := s.slices[i]
	sl.state = sliceLanded
	s.emit(Record{What: SliceLanded, Slice: i, Bytes: sl.bytes})
	if s.Status() == SendFullyTransferred && !s.finished {
		s.finished = true
		s.emit(Sent{Stats: s.stats()})
	}
}
