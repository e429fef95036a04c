package wire

// Challenge opens every connection, in both directions: what the other end must prove itself
// over. Its layout is the same in every protocol version.
type Challenge struct {
	// Token says that the sender has the deployment's token, and wants its proof.
	Token bool
	// Nonce is drawn for this connection alone.
	Nonce [32]byte
}

// Append encodes the challenge.
func (c Challenge) Append(b []byte) []byte {
	e := enc{b}
	e.bool(c.Token)
	e.b = append(e.b, c.Nonce[:]...)
	return e.b
}

// DecodeChallenge decodes what Append encoded.
func DecodeChallenge(b []byte) (Challenge, error) {
	d := dec{b: b}
	c := Challenge{Token: d.bool()}
	copy(c.Nonce[:], d.take(len(c.Nonce)))
	return c, d.end()
}
