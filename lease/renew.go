package lease

import (
	"slices"

	"kvferry/wire"
)

// Renew takes one heartbeat and gives what is to be answered, nil if nothing is: the heartbeat is
// older than what was heard already. It costs as much as joins and leaves, and nothing for what
// stays (LEASE-06).
func (t *Table) Renew(now int64, from wire.Life, m *wire.Heartbeat) *wire.HeartbeatAck {
	now = t.see(now)
	s := t.sets[from]
	fresh := s == nil
	switch {
	case fresh && !m.Full:
		return &wire.HeartbeatAck{Resync: true}
	case fresh:
		s = &set{peer: from, until: now}
		t.sets[from] = s
		t.renewed.push(s)
	case m.Version < s.version:
		return nil
	case !m.Full && m.Base > s.version:
		return &wire.HeartbeatAck{Version: s.version, Resync: true}
	}
	if fresh || m.Version > s.version { // else it is the same set again, and who was refused stays so
		t.change(s, m)
	}
	ack := &wire.HeartbeatAck{Version: s.version, Refused: slices.Clone(s.refused)}
	s.forget()
	t.extend(s, now)
	return ack
}

// change brings a set to the version of a heartbeat. Who leaves keeps the instant of the heartbeat
// before, so a set is changed before it is renewed.
func (t *Table) change(s *set, m *wire.Heartbeat) {
	s.version = m.Version
	s.heard(m)
	for _, l := range m.Left {
		if e := t.entries[l.Request]; e != nil && e.set == s && e.attempt == l.Attempt {
			t.leave(e)
		}
	}
	t.rounds++
	for _, l := range m.Joined {
		if why := t.join(s, l); why != nil {
			s.refused = append(s.refused, wire.LeaseRefusal{Lease: l, Reason: why.Error()})
		}
	}
	if m.Full {
		t.leaveOthers(s)
	}
}

// extend renews whatever is in the set (LEASE-03). The extension is one for all, so the set that
// was renewed last lapses last.
func (t *Table) extend(s *set, now int64) {
	s.until = max(s.until, now+Extension(t.duration))
	t.renewed.remove(s)
	t.renewed.push(s)
}

// join adds a claim to a set, or says why not.
func (t *Table) join(s *set, l wire.Lease) error {
	e := t.entries[l.Request]
	if e == nil {
		return t.joinEarly(s, l)
	}
	switch {
	case e.expired:
		return ErrExpired
	case l.Nonce != 0 && l.Nonce != e.nonce:
		return ErrNonce
	}
	if why := t.outranks(s, e, l.Attempt); why != nil {
		return why
	}
	if e.set != nil && e.set != s {
		t.evict(e, ErrTakenOver)
		if t.entries[e.id] == nil { // it was only claimed yet
			return t.joinEarly(s, l)
		}
	}
	t.claim(s, e, l)
	return nil
}

// outranks says why a set must not have a request for its attempt, nil if it may.
func (t *Table) outranks(s *set, e *entry, attempt uint32) error {
	switch {
	case !e.claimed || attempt > e.attempt:
		return nil
	case attempt < e.attempt:
		return ErrTakenOver
	case e.set != nil && e.set != s && e.set.until > t.now:
		return ErrHeld
	}
	return nil
}

// joinEarly claims a request that has not come. Only its ID can name it: a nonce would be of one
// that was here.
func (t *Table) joinEarly(s *set, l wire.Lease) error {
	if d, ok := t.ended.find(l.Request); ok && d.refuses(l.Nonce, l.Attempt) {
		return d.why
	}
	switch {
	case l.Nonce != 0:
		return ErrUnknown
	case s.early >= maxEarly:
		return ErrMany
	}
	e := &entry{id: l.Request}
	t.entries[e.id] = e
	t.claim(s, e, l)
	return nil
}

func (t *Table) claim(s *set, e *entry, l wire.Lease) {
	if e.set == nil {
		s.add(e)
	}
	e.claimed, e.attempt, e.by, e.round = true, l.Attempt, l.Nonce, t.rounds
}

// leave takes a claim from its set. The lease keeps the instant it had; a request that has not
// come is forgotten.
func (t *Table) leave(e *entry) {
	until := e.until()
	if e.granted && until > e.own {
		t.unstand(e)
		e.set.remove(e)
		e.own = until
		t.stand(e)
		return
	}
	e.own = until
	e.set.remove(e)
	if !e.open {
		delete(t.entries, e.id)
	}
}

// evict takes a claim from its set and lets the reader know why.
func (t *Table) evict(e *entry, why error) {
	e.set.refuse(e, why)
	t.leave(e)
}

// leaveOthers takes from a set what its whole membership did not name in this round.
func (t *Table) leaveOthers(s *set) {
	for i := len(s.members) - 1; i >= 0; i-- {
		if e := s.members[i]; e.round != t.rounds {
			t.leave(e)
		}
	}
}
