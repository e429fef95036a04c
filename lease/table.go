package lease

import "kvferry/wire"

// Table is the granter's side: which requests are under a lease, until when, and who claims them.
// Time is nanoseconds of one clock; a time before one that was given counts as that one.
//
// A heartbeat notes one instant for its whole set (set.until). A lease's expiry is the later of
// its own instant and its set's. Where the set's is the later, the lease rests with the set and
// costs nothing until the set lapses; else it stands in a line by its own.
type Table struct {
	duration int64
	now      int64
	entries  map[string]*entry
	sets     map[wire.Life]*set
	renewed  setList // every set, in the order of renewal and so of until
	line     fifo    // granted leases that do not rest, in the order of their grants
	apart    heap    // and those whose own instant fits no such order
	ended    tombs
	grants   uint64
	rounds   uint64
	live     int
	gone     []expired // Expire's, kept to be filled again
}

// entry is one request: that came (open), or that is claimed before it came.
type entry struct {
	id      string
	nonce   uint64
	open    bool
	granted bool
	expired bool  // granted once, and ended; the owner has still to say End
	own     int64 // until when, its set aside
	grant   uint64

	// The claim, in as far as it was made. attempt outlives it: the newest owns the lease.
	set     *set
	member  int // its place among the set's
	claimed bool
	attempt uint32
	by      uint64 // the nonce that the claim named
	round   uint64

	// Its place among those that wait for their own instant.
	prev, next *entry
	place      place
	heapAt     int
}

// NewTable makes an empty table for leases of the given duration, in ns.
func NewTable(duration int64) *Table {
	return &Table{duration: duration, entries: map[string]*entry{}, sets: map[wire.Life]*set{}}
}

func (t *Table) see(now int64) int64 {
	t.now = max(t.now, now)
	return t.now
}

// Open says that a request came. What was claimed by its ID before attaches.
func (t *Table) Open(id string) {
	t.ended.forget(id)
	e := t.entries[id]
	if e == nil {
		e = &entry{id: id}
		t.entries[id] = e
	}
	if !e.open {
		e.open = true
		if e.set != nil {
			e.set.early--
		}
	}
}

// SetNonce says by which nonce the request's slot holds from now on, 0 for none. A claim by
// another is refused (LEASE-14). A request that has not come has no slot.
func (t *Table) SetNonce(id string, nonce uint64) {
	e := t.entries[id]
	if e == nil || !e.open {
		return
	}
	e.nonce = nonce
	if e.set != nil && e.by != 0 && e.by != nonce {
		t.evict(e, ErrNonce)
	}
}

// Grant leases the request for the duration (LEASE-01). What is not open cannot be granted.
func (t *Table) Grant(now int64, id string) {
	now = t.see(now)
	e := t.entries[id]
	if e == nil || !e.open {
		return
	}
	t.ungrant(e)
	t.grants++
	t.live++
	e.granted, e.expired, e.grant = true, false, t.grants
	e.own = now + t.duration // later than any heartbeat until now made it
	t.stand(e)
}

// End forgets the request. A later claim is refused with why; nil is ErrConsumed. A reader that
// still claims it hears why with its next acknowledgement, but not that it was consumed, which is
// how a claim should end.
func (t *Table) End(id string, why error) {
	e := t.entries[id]
	if e == nil {
		return
	}
	if why == nil {
		why = ErrConsumed
	}
	t.ungrant(e)
	switch {
	case e.set == nil:
	case why == ErrConsumed:
		t.leave(e)
	default:
		t.evict(e, why)
	}
	delete(t.entries, id)
	t.ended.add(id, tomb{why: why, claimed: e.claimed, attempt: e.attempt})
}

// Lost says that the connection to a peer is gone. Its set is forgotten; its leases keep the
// instant they had.
func (t *Table) Lost(peer wire.Life) {
	s := t.sets[peer]
	if s == nil {
		return
	}
	for len(s.members) > 0 {
		t.leave(s.members[len(s.members)-1])
	}
	t.renewed.remove(s)
	delete(t.sets, peer)
}

// Claimed is until when a request is leased that a reader claims, granted or not.
func (t *Table) Claimed(id string) (until int64, ok bool) {
	e := t.entries[id]
	if e == nil || e.set == nil {
		return 0, false
	}
	return e.until(), true
}

// Until is when a granted lease expires, 0 if there is none.
func (t *Table) Until(id string) int64 {
	e := t.entries[id]
	if e == nil || !e.granted {
		return 0
	}
	return e.until()
}

// Len is how many granted leases are alive.
func (t *Table) Len() int { return t.live }

func (e *entry) until() int64 {
	if e.set != nil {
		return max(e.own, e.set.until)
	}
	return e.own
}
