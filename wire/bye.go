package wire

// Bye says why the sender is about to close the connections.
type Bye struct{ Reason string }

// Append encodes the bye.
func (y Bye) Append(b []byte) []byte {
	e := enc{b}
	e.string(y.Reason)
	return e.b
}

// DecodeBye decodes what Append encoded.
func DecodeBye(b []byte) (Bye, error) {
	d := dec{b: b}
	y := Bye{Reason: d.string()}
	return y, d.end()
}
