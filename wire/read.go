package wire

// ReadRequest asks for one part of a one-sided read. ReadData answers it on the bulk
// connection, part by part in order.
type ReadRequest struct {
	// Transfer is the reader's number for the whole read.
	Transfer uint64
	// Part counts the read's requests from 0; Last marks the last of them.
	Part   uint32
	Last   bool
	Ranges []Range
}

// Append encodes the request.
func (r ReadRequest) Append(b []byte) []byte {
	e := enc{b}
	e.u64(r.Transfer)
	e.u32(r.Part)
	e.bool(r.Last)
	e.ranges(r.Ranges)
	return e.b
}

// DecodeReadRequest decodes what Append encoded.
func DecodeReadRequest(b []byte) (ReadRequest, error) {
	d := dec{b: b}
	r := ReadRequest{Transfer: d.u64(), Part: d.u32(), Last: d.bool(), Ranges: d.ranges(nil)}
	return r, d.end()
}
