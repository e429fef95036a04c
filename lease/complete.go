package lease

import "kvferry/wire"

// Complete says whether a reader's completion is of the request as it is here: nil, and its owner
// frees the blocks and says End; else why it is to be ignored (LEASE-16). From then on the
// reader claims the request no more.
func (t *Table) Complete(from wire.Life, m *wire.Complete) error {
	l := m.Lease
	e := t.entries[l.Request]
	if e == nil {
		if d, ok := t.ended.find(l.Request); ok {
			return d.why
		}
		return ErrUnknown
	}
	s := t.sets[from]
	holds := s != nil && e.set == s
	switch {
	case !e.open:
		return ErrUnknown
	case e.expired:
		return ErrExpired
	case l.Nonce == 0 && !(holds && e.attempt == l.Attempt) && !(e.granted && e.nonce == 0):
		// An ID alone says no more than that the claim does. What is leased without a slot has no
		// nonce to name, and its reader, who cannot verify, declines it at once (LEASE-19).
		return ErrNonce
	case l.Nonce != 0 && l.Nonce != e.nonce:
		return ErrNonce
	}
	if why := t.outranks(s, e, l.Attempt); why != nil {
		return why
	}
	if holds {
		t.leave(e)
	}
	return nil
}
