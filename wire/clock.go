package wire

// Clock asks a peer for its clock, and answers. The asker sets Sent, on its own clock; the
// answer brings it back with the time at which it was answered, on the other's clock. Both are
// nanoseconds since an instant that is each process's own (LEASE-20).
type Clock struct {
	Sent     int64
	Answered bool
	Now      int64
}

// Append encodes the message.
func (c *Clock) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindClock))
	e.u64(uint64(c.Sent))
	e.bool(c.Answered)
	e.u64(uint64(c.Now))
	return e.b
}

func (c *Clock) decode(d *dec) {
	c.Sent = int64(d.u64())
	c.Answered = d.bool()
	c.Now = int64(d.u64())
}
