package lease

import (
	"cmp"
	"slices"
)

// expired is a lease that ended, with what orders it among others.
type expired struct {
	e     *entry
	until int64
}

// stand gives a granted lease, which waits nowhere, its place by its own instant.
func (t *Table) stand(e *entry) {
	switch {
	case e.until() > e.own:
		e.set.resting++
	case t.line.back == nil || t.line.back.own <= e.own:
		e.place = inLine
		t.line.push(e)
	default:
		e.place = inHeap
		t.apart.push(e)
	}
}

// unstand takes a granted lease from where it waits.
func (t *Table) unstand(e *entry) {
	switch e.place {
	case inLine:
		t.line.remove(e)
	case inHeap:
		t.apart.remove(e)
	case resting:
		e.set.resting--
	}
	e.place = resting
}

// ungrant ends a lease, if the request has one.
func (t *Table) ungrant(e *entry) {
	if !e.granted {
		return
	}
	t.unstand(e)
	e.granted = false
	t.live--
}

// settle lets those rest whose set outlives their own instant, so that whoever is first in a line
// expires at its own. A lease rests once a stay in a line, so this costs nothing in the end.
func (t *Table) settle() {
	for e := t.line.front; e != nil && e.until() > e.own; e = t.line.front {
		t.rest(e)
	}
	for len(t.apart) > 0 && t.apart[0].until() > t.apart[0].own {
		t.rest(t.apart[0])
	}
}

func (t *Table) rest(e *entry) {
	t.unstand(e)
	e.set.resting++
}

// Deadline is when the first lease expires, or math.MaxInt64 if none can.
func (t *Table) Deadline() int64 {
	t.settle()
	d := never
	if t.line.front != nil {
		d = t.line.front.own
	}
	if len(t.apart) > 0 {
		d = min(d, t.apart[0].own)
	}
	for s := t.renewed.front; s != nil; s = s.next {
		if s.resting > 0 {
			return min(d, s.until)
		}
	}
	return d
}

// Expire takes the leases that ended by now, in the order in which they did. They are no longer
// granted; their owner frees the blocks and says End (LEASE-04).
func (t *Table) Expire(now int64) []string {
	now = t.see(now)
	if t.Deadline() > now {
		return nil
	}
	t.gone = t.gone[:0]
	t.expireLines(now) // first, for some of those may turn out to rest with a set that lapsed
	t.expireSets(now)
	slices.SortFunc(t.gone, func(a, b expired) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.e.grant, b.e.grant))
	})
	ids := make([]string, len(t.gone))
	for i, x := range t.gone {
		ids[i] = x.e.id
	}
	clear(t.gone)
	return ids
}

func (t *Table) expireSets(now int64) {
	for s := t.renewed.front; s != nil && s.until <= now; s = s.next {
		for i := len(s.members) - 1; i >= 0 && s.resting > 0; i-- {
			if e := s.members[i]; e.granted && e.place == resting {
				t.expire(e)
			}
		}
	}
}

func (t *Table) expireLines(now int64) {
	for {
		t.settle()
		switch {
		case t.line.front != nil && t.line.front.own <= now:
			t.expire(t.line.front)
		case len(t.apart) > 0 && t.apart[0].own <= now:
			t.expire(t.apart[0])
		default:
			return
		}
	}
}

func (t *Table) expire(e *entry) {
	t.gone = append(t.gone, expired{e, e.until()})
	t.ungrant(e)
	e.expired = true
	if e.set != nil {
		t.evict(e, ErrExpired)
	}
}
