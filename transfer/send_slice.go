package transfer

import "kvferry/wire"

// dispatch posts every slice that is due, oldest first. A slice is in flight from here on,
// before any wait that its copy does (PIPE-17).
func (s *Send) dispatch(now int64) {
	if s.reg == nil || s.err != nil {
		return
	}
	for i := range s.slices {
		sl := &s.slices[i]
		if sl.state != sliceDue {
			continue
		}
		plan, err := Plan(s.cfg.Layout, s.cfg.PromptLen, sl.span, sl.tables, s.dst)
		if err == nil && s.announces() && s.nonce == 0 {
			err = errNoSlot
		}
		if err != nil {
			s.fail(wire.StatusFailed, err)
			return
		}
		if s.announces() {
			s.announce(i, plan)
		} else {
			s.post(now, i, plan)
		}
	}
}

// post sends slice i out, by every rank that owes a part of it. A rank that owes the receiver
// nothing at all sends its last slice only, empty, so that the receiver hears from everyone.
func (s *Send) post(now int64, i int, plan []GroupCopy) {
	sl := &s.slices[i]
	sl.state, sl.flying = sliceInFlight, make([]bool, s.ranks.Writers())
	for w := range sl.flying {
		if s.ranks.Owes(w) || sl.last {
			sl.flying[w] = true
			sl.open++
			sl.bytes += s.ranks.Bytes(w, plan)
			s.own.Use()
			s.spans.begin(now)
		}
	}
	s.emit(Record{What: SlicePosted, Slice: i, Bytes: sl.bytes})
	for w, flying := range sl.flying {
		if flying {
			s.emit(Copy{
				Slice: i, Writer: w, Peer: s.peer, Epoch: s.reg.Epoch, Groups: plan,
				Checksum: s.reg.Checksum, Notice: s.result(i, w, plan),
			})
		}
	}
}

// result is a writer's notice of slice i. The last carries the count, so the receiver needs no
// order (PIPE-13), and that of writer 0 the aux (PIPE-20).
func (s *Send) result(i, w int, plan []GroupCopy) *wire.Result {
	sl := &s.slices[i]
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
	sl := &s.slices[ev.Slice]
	if sl.flying == nil || !sl.flying[ev.Writer] {
		panic("transfer: a copy ended twice")
	}
	sl.flying[ev.Writer] = false
	sl.open--
	s.own.Done()
	s.spans.end(now)
	s.active = now
	if ev.Err != nil {
		sl.state = sliceFailed
		s.fail(wire.StatusFailed, ev.Err)
	}
	if sl.state == sliceFailed || sl.open > 0 {
		return
	}
	sl.state = sliceLanded
	s.emit(Record{What: SliceLanded, Slice: ev.Slice, Bytes: sl.bytes})
	if s.Status() == SendFullyTransferred && !s.finished {
		s.finished = true
		s.emit(Sent{Stats: s.stats()})
	}
}
