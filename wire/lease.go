package wire

// Lease names a lease as its reader does: the request on the prefill engine, the nonce that
// tells it from an earlier request or attempt with the same ID, and the router's attempt, of
// which the newest owns the lease. Nonce 0 claims a request by its ID alone, before its
// prefill engine has said a nonce.
type Lease struct {
	Request string
	Nonce   uint64
	Attempt uint32
}

func (e *enc) lease(c Lease) {
	e.string(c.Request)
	e.u64(c.Nonce)
	e.u32(c.Attempt)
}

func (d *dec) lease() Lease {
	return Lease{Request: d.string(), Nonce: d.u64(), Attempt: d.u32()}
}

// leaseBytes is the least that an encoded claim takes.
const leaseBytes = 4 + 8 + 4

func (e *enc) leases(list []Lease) {
	e.u32(uint32(len(list)))
	for _, c := range list {
		e.lease(c)
	}
}

func (d *dec) leases() []Lease {
	var out []Lease
	for range d.count(leaseBytes) {
		out = append(out, d.lease())
	}
	return out
}
