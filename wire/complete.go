package wire

// Complete ends a reader's lease: the granter may free the blocks (LEASE-02). It comes after
// verification, pass or fail, and when the reader gave up before it read (LEASE-16, LEASE-21).
type Complete struct {
	Lease Lease
	// Status is StatusOK when the KV was read and proved, StatusFailed when it could not be
	// used, StatusCancelled when nobody wants it any more; Reason says why.
	Status Status
	Reason string
}

// Append encodes the message.
func (c *Complete) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindComplete))
	e.lease(c.Lease)
	e.u8(uint8(c.Status))
	e.string(c.Reason)
	return e.b
}

func (c *Complete) decode(d *dec) {
	c.Lease = d.lease()
	c.Status = d.status()
	c.Reason = d.string()
}
