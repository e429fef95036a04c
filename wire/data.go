package wire

import "fmt"

// ReadData answers one ReadRequest: the bytes of its ranges follow in order, or none where
// it is refused.
type ReadData struct {
	Transfer uint64
	Part     uint32
	Last     bool
	// Bytes is how many follow.
	Bytes   uint32
	Sum     Sum32
	Refused bool
	// Reason says why the request was refused.
	Reason string
}

// Append encodes the answer's header.
func (r ReadData) Append(b []byte) []byte {
	e := enc{b}
	e.u64(r.Transfer)
	e.u32(r.Part)
	e.bool(r.Last)
	e.u32(r.Bytes)
	e.sum(r.Sum)
	e.bool(r.Refused)
	e.string(r.Reason)
	return e.b
}

// DecodeReadData decodes what Append encoded.
func DecodeReadData(b []byte) (ReadData, error) {
	d := dec{b: b}
	r := ReadData{
		Transfer: d.u64(), Part: d.u32(), Last: d.bool(), Bytes: d.u32(), Sum: d.sum(), Refused: d.bool(), Reason: d.string(),
	}
	switch {
	case d.err != nil:
	case r.Bytes > MaxBulk:
		d.fail(fmt.Errorf("wire: an answer of %d bytes is longer than %d", r.Bytes, MaxBulk))
	case r.Refused && r.Bytes > 0, !r.Refused && r.Reason != "":
		d.fail(fmt.Errorf("wire: an answer of %d bytes is both given and refused", r.Bytes))
	}
	return r, d.end()
}
