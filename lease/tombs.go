package lease

// maxTombs is how many ended requests a table remembers.
const maxTombs = 1 << 14

// tomb is what is remembered of a request that ended.
type tomb struct {
	why     error
	claimed bool
	attempt uint32
	seq     uint64
}

// refuses says whether a claim is of the request that ended. One that names no nonce may be of a
// new request with the same ID, if its attempt is newer than any that claimed the ended one.
func (d tomb) refuses(nonce uint64, attempt uint32) bool {
	return nonce != 0 || !d.claimed || attempt <= d.attempt
}

// tombs are the requests that ended last. The zero value is empty.
type tombs struct {
	byID map[string]tomb
	ring []grave
	seq  uint64
}

type grave struct {
	id  string
	seq uint64
}

func (t *tombs) add(id string, d tomb) {
	if t.byID == nil {
		t.byID = map[string]tomb{}
	}
	t.seq++
	d.seq = t.seq
	g := grave{id: id, seq: t.seq}
	if len(t.ring) < maxTombs {
		t.ring = append(t.ring, g)
	} else {
		at := &t.ring[(t.seq-1)%maxTombs]
		if t.byID[at.id].seq == at.seq {
			delete(t.byID, at.id)
		}
		*at = g
	}
	t.byID[id] = d
}

func (t *tombs) forget(id string) { delete(t.byID, id) }

func (t *tombs) find(id string) (tomb, bool) {
	d, ok := t.byID[id]
	return d, ok
}
