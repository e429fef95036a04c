package wire

// Join opens a bulk connection.
type Join struct {
	// Nonce is the claim's that this connection belongs to.
	Nonce Nonce
	// Index counts the claim's bulk connections from 0.
	Index uint16
}

// Append encodes the join.
func (j Join) Append(b []byte) []byte {
	e := enc{b}
	e.b = append(e.b, j.Nonce[:]...)
	e.u16(j.Index)
	return e.b
}

// DecodeJoin decodes what Append encoded.
func DecodeJoin(b []byte) (Join, error) {
	d := dec{b: b}
	var j Join
	copy(j.Nonce[:], d.take(len(j.Nonce)))
	j.Index = d.u16()
	return j, d.end()
}
