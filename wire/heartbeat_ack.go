package wire

// HeartbeatAck answers a heartbeat: the granter's set is now at Version. With Resync nothing was
// renewed, because the set is not the one that the heartbeat goes on from: the sender answers
// with the whole set.
type HeartbeatAck struct {
	Version uint64
	Resync  bool
	// Refused are claims that the granter does not, or no longer, honour; they are not in the
	// set any more.
	Refused []LeaseRefusal
}

// LeaseRefusal says why a claim is not honoured.
type LeaseRefusal struct {
	Lease  Lease
	Reason string
}

// Append encodes the message.
func (a *HeartbeatAck) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindHeartbeatAck))
	e.u64(a.Version)
	e.bool(a.Resync)
	e.u32(uint32(len(a.Refused)))
	for _, r := range a.Refused {
		e.lease(r.Lease)
		e.string(r.Reason)
	}
	return e.b
}

func (a *HeartbeatAck) decode(d *dec) {
	a.Version = d.u64()
	a.Resync = d.bool()
	for range d.count(leaseBytes + 4) {
		a.Refused = append(a.Refused, LeaseRefusal{Lease: d.lease(), Reason: d.string()})
	}
}
