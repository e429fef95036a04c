package transfer

import (
	"errors"
	"fmt"

	"kvferry/wire"
)

// errNoSlot: nothing could prove what a receiver reads.
var errNoSlot = errors.New("no lease slot is free")

// announces reports whether the receiver reads what is announced to it, instead of being
// written to (LEASE-25).
func (s *Send) announces() bool { return s.reg != nil && s.reg.Read }

// announce tells the reader of slice i. From here on its blocks are in use, until the reader is
// done with all of them or its lease ends: it may read at any time. Plan lets nothing through
// that a window drops before the prompt's end.
func (s *Send) announce(i int, plan []GroupCopy) {
	sl := s.slices[i]
	s.own.Use()
	m := &wire.Announce{
		Request: s.cfg.Request, Task: s.reg.Task, Epoch: s.reg.Epoch, Slot: s.slot, Nonce: s.nonce,
		Slice: uint32(i), Last: sl.last, Start: uint32(sl.span.Start), End: uint32(sl.span.End),
		Blocks: make([][]int32, len(s.cfg.Layout.Groups)), Aux: sl.aux,
	}
	for _, c := range plan {
		for _, b := range c.Src {
			m.Blocks[c.Group] = append(m.Blocks[c.Group], int32(b))
		}
	}
	s.emit(Notify{Peer: s.peer, Msg: m})
}

// slotted takes the nonce that the next announcement carries. Blocks that are announced stay,
// and their nonce with them.
func (s *Send) slotted(ev Slotted) {
	if s.announces() && s.announced() > 0 {
		panic("transfer: another nonce for blocks that are announced")
	}
	s.slot, s.nonce = ev.Slot, ev.Nonce
}

// announced is how many slices are announced and not done with.
func (s *Send) announced() int {
	n := 0
	for i := range s.slices {
		if s.slices[i].state == sliceInFlight {
			n++
		}
	}
	return n
}

// completed ends a session whose reader is done. A receiver that is written to says that it is
// whole by no Complete, but it may give up by one before it registers.
func (s *Send) completed(ev Completed) {
	cause := ev.cause()
	last := len(s.slices) - 1
	switch {
	case cause != nil:
		status := wire.StatusFailed
		if ev.Status == wire.StatusCancelled {
			status = wire.StatusCancelled
		}
		s.drained = s.drained || s.announces() // the reader reads no more
		s.fail(status, cause)
	case !s.announces() || s.finished:
	case last < 0 || !s.slices[last].last:
		s.fail(wire.StatusFailed, fmt.Errorf("%w: completed before the last announcement", ErrProtocol))
	default:
		for i := range s.slices {
			s.slices[i].state = sliceLanded
			s.own.Done()
			s.emit(Record{What: SliceLanded, Slice: i, Bytes: s.slices[i].bytes})
		}
		s.finished = true
		s.emit(Sent{Stats: s.stats()})
	}
}

// unannounce ends the uses of a failed session's announced blocks at once. A reader that is at
// it does no harm: the slot is zeroed before the blocks are released, so its proof fails.
func (s *Send) unannounce() {
	if !s.announces() {
		return
	}
	for i := range s.slices {
		if s.slices[i].state == sliceInFlight {
			s.slices[i].state = sliceFailed
			s.own.Done()
		}
	}
}
