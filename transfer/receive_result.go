package transfer

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

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
