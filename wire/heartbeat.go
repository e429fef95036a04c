package wire

// Heartbeat renews every lease that a decode engine holds of one prefill engine (LEASE-06). The
// set of leases belongs to the sender's life and has versions: a heartbeat brings the set from
// Base, which the granter acknowledged last, to Version, so that one that nothing joined and
// nothing left has the same few bytes however many leases it renews.
type Heartbeat struct {
	// Full: Joined is the whole set, whatever the granter has; Base says nothing then.
	Full          bool
	Base, Version uint64
	// Joined and Left are the claims that changed since Base, as they are at Version.
	Joined, Left []Lease
}

// Append encodes the message.
func (h *Heartbeat) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindHeartbeat))
	e.bool(h.Full)
	e.u64(h.Base)
	e.u64(h.Version)
	e.leases(h.Joined)
	e.leases(h.Left)
	return e.b
}

func (h *Heartbeat) decode(d *dec) {
	h.Full = d.bool()
	h.Base = d.u64()
	h.Version = d.u64()
	h.Joined = d.leases()
	h.Left = d.leases()
}
