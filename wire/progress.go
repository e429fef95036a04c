package wire

// Progress tells a registered receiver that its request is still queued or computing, so that
// its time-out counts silence and not the length of the sender's queue (PIPE-19).
type Progress struct {
	Request string
	Task    uint32
	Epoch   uint64
}

// Append encodes the message.
func (p *Progress) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindProgress))
	e.string(p.Request)
	e.u32(p.Task)
	e.u64(p.Epoch)
	return e.b
}

func (p *Progress) decode(d *dec) {
	p.Request = d.string()
	p.Task = d.u32()
	p.Epoch = d.u64()
}
