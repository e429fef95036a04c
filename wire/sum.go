package wire

import (
	"errors"
	"hash/crc32"
)

// Sum32 is the CRC32C of the bytes that follow a frame, its notice included, where the sender
// was told to make one.
type Sum32 struct {
	Made  bool
	Value uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Add takes more bytes into the sum.
func (s *Sum32) Add(b []byte) {
	s.Made, s.Value = true, crc32.Update(s.Value, castagnoli, b)
}

func (e *enc) sum(s Sum32) {
	e.bool(s.Made)
	e.u32(s.Value)
}

func (d *dec) sum() Sum32 {
	s := Sum32{Made: d.bool(), Value: d.u32()}
	if !s.Made && s.Value != 0 {
		d.fail(errors.New("wire: a checksum that was not made"))
	}
	return s
}
