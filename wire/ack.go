package wire

import "errors"

// Ack ends a write: all its bytes landed, or it was refused.
type Ack struct {
	Transfer uint64
	Refused  bool
	// Reason says why a write was refused.
	Reason string
}

// Append encodes the ack.
func (a Ack) Append(b []byte) []byte {
	e := enc{b}
	e.u64(a.Transfer)
	e.bool(a.Refused)
	e.string(a.Reason)
	return e.b
}

// DecodeAck decodes what Append encoded.
func DecodeAck(b []byte) (Ack, error) {
	d := dec{b: b}
	a := Ack{Transfer: d.u64(), Refused: d.bool(), Reason: d.string()}
	if d.err == nil && !a.Refused && a.Reason != "" {
		d.fail(errors.New("wire: a reason to refuse where nothing is refused"))
	}
	return a, d.end()
}
