package lease

import (
	"cmp"
	"slices"

	"kvferry/wire"
)

// model is a table as the ledger says it, without a thought for cost: each lease has its own
// expiry, and a heartbeat visits every lease that it renews.
type model struct {
	duration int64
	now      int64
	seen     int64 // the last time that the table was told
	leases   map[string]*modelLease
	readers  map[wire.Life]*modelReader
	ended    map[string]modelEnd
	grants   int
}

type modelLease struct {
	open, granted, expired bool
	nonce                  uint64
	until                  int64
	grant                  int
	holder                 *wire.Life
	claim                  wire.Lease
	attempted              bool
}

type modelReader struct {
	version uint64
	until   int64
	owed    map[string]wire.LeaseRefusal // by request and reason
}

type modelEnd struct {
	why       error
	attempted bool
	attempt   uint32
}

func newModel(duration int64) *model {
	return &model{duration: duration, leases: map[string]*modelLease{}, readers: map[wire.Life]*modelReader{}, ended: map[string]modelEnd{}}
}

func (m *model) open(id string) {
	delete(m.ended, id)
	if m.leases[id] == nil {
		m.leases[id] = &modelLease{}
	}
	m.leases[id].open = true
}

func (m *model) setNonce(id string, nonce uint64) {
	l := m.leases[id]
	if l == nil || !l.open {
		return
	}
	l.nonce = nonce
	if l.holder != nil && l.claim.Nonce != 0 && l.claim.Nonce != nonce {
		m.tell(id, ErrNonce)
		m.drop(id)
	}
}

func (m *model) grant(id string) {
	m.seen = m.now
	l := m.leases[id]
	if l == nil || !l.open {
		return
	}
	m.grants++
	l.granted, l.expired, l.grant = true, false, m.grants
	l.until = max(l.until, m.now+m.duration)
}

func (m *model) end(id string, why error) {
	l := m.leases[id]
	if l == nil {
		return
	}
	if why == nil {
		why = ErrConsumed
	} else {
		m.tell(id, why)
	}
	delete(m.leases, id)
	m.ended[id] = modelEnd{why: why, attempted: l.attempted, attempt: l.claim.Attempt}
}

// tell remembers that the holder has to hear why its claim ended.
func (m *model) tell(id string, why error) {
	l := m.leases[id]
	if l.holder == nil {
		return
	}
	m.readers[*l.holder].owed[id+why.Error()+leaseText(l.claim)] = wire.LeaseRefusal{Lease: l.claim, Reason: why.Error()}
}

func (m *model) drop(id string) {
	l := m.leases[id]
	l.holder = nil
	if !l.open {
		delete(m.leases, id)
	}
}

func (m *model) lost(peer wire.Life) {
	for id, l := range m.leases {
		if l.holder != nil && *l.holder == peer {
			m.drop(id)
		}
	}
	delete(m.readers, peer)
}

func (m *model) renew(from wire.Life, b *wire.Heartbeat) *wire.HeartbeatAck {
	m.seen = m.now
	r := m.readers[from]
	fresh := r == nil
	switch {
	case fresh && !b.Full:
		return &wire.HeartbeatAck{Resync: true}
	case fresh:
		r = &modelReader{until: m.now, owed: map[string]wire.LeaseRefusal{}}
		m.readers[from] = r
	case b.Version < r.version:
		return nil
	case !b.Full && b.Base > r.version:
		return &wire.HeartbeatAck{Version: r.version, Resync: true}
	}
	if fresh || b.Version > r.version {
		m.change(from, r, b)
	}
	r.until = max(r.until, m.now+m.duration/3*2)
	for _, l := range m.leases {
		if l.holder != nil && *l.holder == from {
			l.until = max(l.until, r.until)
		}
	}
	ack := &wire.HeartbeatAck{Version: b.Version}
	for _, owed := range r.owed {
		ack.Refused = append(ack.Refused, owed)
	}
	return ack
}

func (m *model) change(from wire.Life, r *modelReader, b *wire.Heartbeat) {
	r.version = b.Version
	for key, owed := range r.owed {
		said := func(l wire.Lease) bool { return l.Request == owed.Lease.Request }
		if b.Full || slices.ContainsFunc(b.Joined, said) || slices.ContainsFunc(b.Left, said) {
			delete(r.owed, key)
		}
	}
	for _, l := range b.Left {
		if x := m.leases[l.Request]; x != nil && x.holder != nil && *x.holder == from && x.claim.Attempt == l.Attempt {
			m.drop(l.Request)
		}
	}
	joined := map[string]bool{}
	for _, l := range b.Joined {
		if why := m.join(from, l); why != nil {
			r.owed[l.Request+why.Error()+leaseText(l)] = wire.LeaseRefusal{Lease: l, Reason: why.Error()}
		} else {
			joined[l.Request] = true
		}
	}
	for id, l := range m.leases {
		if b.Full && l.holder != nil && *l.holder == from && !joined[id] {
			m.drop(id)
		}
	}
}

func (m *model) join(from wire.Life, l wire.Lease) error {
	x := m.leases[l.Request]
	if x == nil {
		d, ended := m.ended[l.Request]
		switch {
		case ended && (l.Nonce != 0 || !d.attempted || l.Attempt <= d.attempt):
			return d.why
		case l.Nonce != 0:
			return ErrUnknown
		}
		x = &modelLease{}
		m.leases[l.Request] = x
	}
	switch {
	case x.expired:
		return ErrExpired
	case l.Nonce != 0 && l.Nonce != x.nonce:
		return ErrNonce
	}
	if why := m.rank(from, x, l.Attempt); why != nil {
		return why
	}
	if x.holder != nil && *x.holder != from {
		m.tell(l.Request, ErrTakenOver)
		if !x.open { // a claim that was only early is not taken over but made anew
			x.until = 0
		}
	}
	x.holder, x.claim, x.attempted = &from, l, true
	return nil
}

func (m *model) rank(from wire.Life, x *modelLease, attempt uint32) error {
	switch {
	case x.attempted && attempt < x.claim.Attempt:
		return ErrTakenOver
	case x.holder != nil && *x.holder != from && attempt == x.claim.Attempt && m.readers[*x.holder].until > m.seen:
		return ErrHeld
	}
	return nil
}

func (m *model) complete(from wire.Life, l wire.Lease) error {
	x := m.leases[l.Request]
	if x == nil {
		if d, ok := m.ended[l.Request]; ok {
			return d.why
		}
		return ErrUnknown
	}
	holds := x.holder != nil && *x.holder == from
	switch {
	case !x.open:
		return ErrUnknown
	case x.expired:
		return ErrExpired
	case l.Nonce == 0 && x.granted && x.nonce == 0:
	case l.Nonce == 0 && (!holds || x.claim.Attempt != l.Attempt):
		return ErrNonce
	case l.Nonce != 0 && l.Nonce != x.nonce:
		return ErrNonce
	}
	if why := m.rank(from, x, l.Attempt); why != nil {
		return why
	}
	if holds {
		m.drop(l.Request)
	}
	return nil
}

func (m *model) expire() []string {
	m.seen = m.now
	var ids []string
	for id, l := range m.leases {
		if l.granted && l.until <= m.now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		x, y := m.leases[a], m.leases[b]
		return cmp.Or(cmp.Compare(x.until, y.until), cmp.Compare(x.grant, y.grant))
	})
	for _, id := range ids {
		l := m.leases[id]
		m.tell(id, ErrExpired)
		l.granted, l.expired, l.holder = false, true, nil
	}
	return ids
}

func (m *model) deadline() int64 {
	d := never
	for _, l := range m.leases {
		if l.granted {
			d = min(d, l.until)
		}
	}
	return d
}

func (m *model) len() int {
	n := 0
	for _, l := range m.leases {
		if l.granted {
			n++
		}
	}
	return n
}
