package lease

import "kvferry/wire"

// soonPart is what part of the interval must lie between a heartbeat and one that goes only to
// tell of a join, so that a burst of joins is a few messages.
const soonPart = 16

// claims is the set that a reader keeps of one peer.
type claims struct {
	peer     wire.Life
	interval int64

	version uint64 // the set's, as it is
	acked   uint64 // what the peer has, as far as it said
	// full: heartbeats bring the whole set until one of version fullFrom or later is acknowledged.
	full     bool
	fullFrom uint64

	byID    map[string]*member
	members []*member
	changed memberList // touched since acked, in the order of their versions

	sent int64 // when the last heartbeat went, or long ago
	at   int64 // when the next does
}

// member is a lease in a set, or one that left it and of which the peer may not know.
type member struct {
	lease      wire.Lease
	in         bool
	place      int
	version    uint64 // at which it was touched last
	fresh      bool   // it is among the changed
	prev, next *member
}

func newClaims(peer wire.Life, interval int64) *claims {
	return &claims{peer: peer, interval: interval, byID: map[string]*member{}, sent: -interval, at: never}
}

func (c *claims) wantFull(version uint64) {
	c.version, c.full, c.fullFrom = version, true, version
}

// wants says whether a lease is news: not what the set has of the request, nor an older attempt.
func (c *claims) wants(l wire.Lease) bool {
	m := c.byID[l.Request]
	return m == nil || !m.in || m.lease != l && l.Attempt >= m.lease.Attempt
}

func (c *claims) join(now int64, version uint64, l wire.Lease) {
	m := c.byID[l.Request]
	if m == nil {
		m = &member{}
		c.byID[l.Request] = m
	}
	m.lease = l
	if !m.in {
		m.in, m.place = true, len(c.members)
		c.members = append(c.members, m)
	}
	c.touch(version, m)
	c.at = min(c.at, max(now, c.sent+c.interval/soonPart))
}

// leave is told with the next heartbeat that is due anyway.
func (c *claims) leave(now int64, version uint64, m *member) {
	last := c.members[len(c.members)-1]
	c.members[m.place], last.place = last, m.place
	c.members[len(c.members)-1] = nil
	c.members = c.members[:len(c.members)-1]
	m.in = false
	c.touch(version, m)
	c.at = min(c.at, max(now, c.sent+c.interval))
}

func (c *claims) touch(version uint64, m *member) {
	c.version, m.version = version, version
	if m.fresh {
		c.changed.remove(m)
	}
	m.fresh = true
	c.changed.push(m)
}

// ack forgets the changes that the peer has.
func (c *claims) ack(version uint64) {
	c.acked, c.full = version, false
	for m := c.changed.front; m != nil && m.version <= version; m = c.changed.front {
		c.changed.remove(m)
		m.fresh = false
		if !m.in {
			delete(c.byID, m.lease.Request)
		}
	}
	if len(c.members) == 0 && c.changed.front == nil {
		c.at = never
	}
}

// beat makes the heartbeat that goes now.
func (c *claims) beat(now int64) *wire.Heartbeat {
	m := &wire.Heartbeat{Full: c.full, Base: c.acked, Version: c.version}
	if c.full {
		for _, x := range c.members {
			m.Joined = append(m.Joined, x.lease)
		}
	} else {
		for x := c.changed.front; x != nil; x = x.next {
			if x.in {
				m.Joined = append(m.Joined, x.lease)
			} else {
				m.Left = append(m.Left, x.lease)
			}
		}
	}
	c.sent, c.at = now, now+c.interval
	return m
}

// memberList is a doubly linked list.
type memberList struct{ front, back *member }

func (l *memberList) push(m *member) {
	m.prev, m.next = l.back, nil
	if l.back == nil {
		l.front = m
	} else {
		l.back.next = m
	}
	l.back = m
}

func (l *memberList) remove(m *member) {
	if m.prev == nil {
		l.front = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		l.back = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
}
