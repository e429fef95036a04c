package wire

// Ping asks whether the peer's process still runs; the pong is the same frame sent back.
type Ping struct{ Seq uint64 }

// Append encodes the ping.
func (p Ping) Append(b []byte) []byte {
	e := enc{b}
	e.u64(p.Seq)
	return e.b
}

// DecodePing decodes what Append encoded.
func DecodePing(b []byte) (Ping, error) {
	d := dec{b: b}
	p := Ping{Seq: d.u64()}
	return p, d.end()
}
