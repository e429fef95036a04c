package wire

// Withdraw takes a registration back: the receiver has revoked its epoch. The sender answers
// with a terminal Result once nothing of that request is in flight any more, whether it still
// knows the request or not.
type Withdraw struct {
	Request string
	// Task is the receiver's index of the receive, for the answer.
	Task   uint32
	Epoch  uint64
	Reason string
}

// Append encodes the message.
func (w *Withdraw) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindWithdraw))
	e.string(w.Request)
	e.u32(w.Task)
	e.u64(w.Epoch)
	e.string(w.Reason)
	return e.b
}

func (w *Withdraw) decode(d *dec) {
	w.Request = d.string()
	w.Task = d.u32()
	w.Epoch = d.u64()
	w.Reason = d.string()
}
