package wire

// Proof answers a challenge: whoever sends it has the token, and is this life. The side that
// dialled proves itself first. Its layout is the same in every protocol version.
type Proof struct {
	Life Life
	// MAC is over the two challenges of the connection, the life and which side sends it, under
	// the deployment's token, or under none where neither side has one.
	MAC [32]byte
}

// Append encodes the proof.
func (p Proof) Append(b []byte) []byte {
	e := enc{b}
	e.b = append(e.b, p.Life[:]...)
	e.b = append(e.b, p.MAC[:]...)
	return e.b
}

// DecodeProof decodes what Append encoded.
func DecodeProof(b []byte) (Proof, error) {
	d := dec{b: b}
	var p Proof
	copy(p.Life[:], d.take(len(p.Life)))
	copy(p.MAC[:], d.take(len(p.MAC)))
	return p, d.end()
}
