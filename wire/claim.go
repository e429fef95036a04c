package wire

import "fmt"

// MaxBulkConnections is how many bulk connections a pair of processes may have.
const MaxBulkConnections = 16

// Nonce ties bulk connections to the control connection that drew it.
type Nonce [16]byte

// Claim asks, after the hellos, that this connection become the one between the two lives.
type Claim struct {
	Nonce Nonce
	// Bulk is how many bulk connections will join.
	Bulk uint16
}

// Append encodes the claim.
func (c Claim) Append(b []byte) []byte {
	e := enc{b}
	e.b = append(e.b, c.Nonce[:]...)
	e.u16(c.Bulk)
	return e.b
}

// DecodeClaim decodes what Append encoded.
func DecodeClaim(b []byte) (Claim, error) {
	d := dec{b: b}
	var c Claim
	copy(c.Nonce[:], d.take(len(c.Nonce)))
	c.Bulk = d.u16()
	if d.err == nil && (c.Bulk == 0 || c.Bulk > MaxBulkConnections) {
		d.fail(fmt.Errorf("wire: %d bulk connections: want 1 to %d", c.Bulk, MaxBulkConnections))
	}
	return c, d.end()
}
