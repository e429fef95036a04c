package lease

import (
	"slices"

	"kvferry/wire"
)

// Bounds of what one peer can make a table keep.
const (
	maxEarly    = 1 << 14 // claims of requests that have not come
	maxRefusals = 1 << 14 // refusals of which the peer has not said that it knows
)

// set is what one life of a reader claims. It is alive until its instant, which each heartbeat
// moves.
type set struct {
	peer    wire.Life
	version uint64
	until   int64
	members []*entry
	resting int // granted members that stand in no line
	early   int // members that have not come
	// refused are claims that were not taken, or ended here. They go with each acknowledgement
	// until the peer says that it dropped them, for an acknowledgement may be lost.
	refused []wire.LeaseRefusal

	prev, next *set
}

func (s *set) add(e *entry) {
	e.set, e.member = s, len(s.members)
	s.members = append(s.members, e)
	if !e.open {
		s.early++
	}
}

func (s *set) remove(e *entry) {
	last := s.members[len(s.members)-1]
	s.members[e.member], last.member = last, e.member
	s.members[len(s.members)-1] = nil
	s.members = s.members[:len(s.members)-1]
	if !e.open {
		s.early--
	}
	e.set = nil
}

func (s *set) refuse(e *entry, why error) {
	l := wire.Lease{Request: e.id, Nonce: e.by, Attempt: e.attempt}
	s.refused = append(s.refused, wire.LeaseRefusal{Lease: l, Reason: why.Error()})
	if len(s.refused) >= 2*maxRefusals {
		s.forget()
	}
}

// forget drops all but the latest refusals.
func (s *set) forget() {
	if more := len(s.refused) - maxRefusals; more > 0 {
		s.refused = slices.Delete(s.refused, 0, more)
	}
}

// heard drops the refusals that the peer has taken note of: of requests that it says anything of.
func (s *set) heard(m *wire.Heartbeat) {
	if len(s.refused) == 0 {
		return
	}
	if m.Full {
		s.refused = nil
		return
	}
	said := make(map[string]bool, len(m.Joined)+len(m.Left))
	for _, l := range m.Joined {
		said[l.Request] = true
	}
	for _, l := range m.Left {
		said[l.Request] = true
	}
	s.refused = slices.DeleteFunc(s.refused, func(r wire.LeaseRefusal) bool { return said[r.Lease.Request] })
}

// setList is a doubly linked list of sets.
type setList struct{ front, back *set }

func (l *setList) push(s *set) {
	s.prev, s.next = l.back, nil
	if l.back == nil {
		l.front = s
	} else {
		l.back.next = s
	}
	l.back = s
}

func (l *setList) remove(s *set) {
	if s.prev == nil {
		l.front = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.back = s.prev
	} else {
		s.next.prev = s.prev
	}
}
