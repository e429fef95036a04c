package lease

import (
	"slices"

	"kvferry/wire"
)

// Renewals is the reader's side: the sets of leases that it claims of its peers, and the
// heartbeats that renew them.
type Renewals struct {
	peers map[wire.Life]*claims
	order []*claims // in which they came up: no map's order reaches the wire
	// version is the newest of any set. One count for all of them makes a set's versions rise over
	// its connections, so that a message of an earlier one is known as old.
	version uint64
}

// Beat is one heartbeat that is to go to a peer.
type Beat struct {
	Peer wire.Life
	Msg  *wire.Heartbeat
}

// NewRenewals makes one without peers.
func NewRenewals() *Renewals {
	return &Renewals{peers: map[wire.Life]*claims{}}
}

// Up begins an empty set of a peer that a connection was made to; duration is its leases', in ns.
func (r *Renewals) Up(_ int64, peer wire.Life, duration int64) {
	r.Lost(peer)
	c := newClaims(peer, Interval(duration))
	c.wantFull(r.next())
	r.peers[peer] = c
	r.order = append(r.order, c)
}

// Lost forgets the set of a peer whose connection is gone.
func (r *Renewals) Lost(peer wire.Life) {
	c := r.peers[peer]
	if c == nil {
		return
	}
	delete(r.peers, peer)
	r.order = slices.DeleteFunc(r.order, func(o *claims) bool { return o == c })
}

// Join adds a lease to the set of a peer that is up; the peer hears of it soon (LEASE-05). A
// newer claim of the same request replaces an older one.
func (r *Renewals) Join(now int64, peer wire.Life, l wire.Lease) {
	if c := r.peers[peer]; c != nil && c.wants(l) {
		c.join(now, r.next(), l)
	}
}

// Leave drops a lease: no later heartbeat renews it (LEASE-08). Its nonce may have become known
// since it joined.
func (r *Renewals) Leave(now int64, peer wire.Life, l wire.Lease) {
	c := r.peers[peer]
	if c == nil {
		return
	}
	if m := c.byID[l.Request]; m != nil && m.in && m.lease.Attempt == l.Attempt {
		c.leave(now, r.next(), m)
	}
}

// Acked takes the answer to a heartbeat. What the peer refused leaves the set; Resync makes the
// next heartbeat a full one, at once.
func (r *Renewals) Acked(now int64, from wire.Life, a *wire.HeartbeatAck) {
	c := r.peers[from]
	if c == nil || a.Version > c.version {
		return
	}
	if a.Resync {
		if !c.full { // else it is on its way
			c.wantFull(r.next())
			c.at = now
		}
		return
	}
	if a.Version < c.acked || c.full && a.Version < c.fullFrom {
		return // of an earlier connection, or overtaken
	}
	for _, refused := range a.Refused {
		m := c.byID[refused.Lease.Request]
		if m != nil && m.in && m.lease == refused.Lease && m.version <= a.Version {
			c.leave(now, r.next(), m)
		}
	}
	c.ack(a.Version)
}

// Deadline is when the next heartbeat is due, math.MaxInt64 if none is.
func (r *Renewals) Deadline() int64 {
	d := never
	for _, c := range r.order {
		d = min(d, c.at)
	}
	return d
}

// Due gives the heartbeats that are due, at most one a peer.
func (r *Renewals) Due(now int64) []Beat {
	var out []Beat
	for _, c := range r.order {
		if c.at <= now {
			out = append(out, Beat{Peer: c.peer, Msg: c.beat(now)})
		}
	}
	return out
}

// Len is how many leases are in all sets.
func (r *Renewals) Len() int {
	n := 0
	for _, c := range r.order {
		n += len(c.members)
	}
	return n
}

func (r *Renewals) next() uint64 {
	r.version++
	return r.version
}
