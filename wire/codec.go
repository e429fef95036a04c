package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxString is the longest string or byte field that a frame may hold, in bytes.
const MaxString = 64 << 10

// ErrShort says that a frame ends before its last field.
var ErrShort = errors.New("wire: frame is too short")

// enc appends fields to a frame.
type enc struct{ b []byte }

func (e *enc) u8(v uint8)   { e.b = append(e.b, v) }
func (e *enc) u16(v uint16) { e.b = binary.LittleEndian.AppendUint16(e.b, v) }
func (e *enc) u32(v uint32) { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *enc) u64(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *enc) bool(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *enc) string(v string) {
	e.u32(uint32(len(v)))
	e.b = append(e.b, v...)
}

// dec takes fields off a frame. The first fault sticks: later fields read as zero.
type dec struct {
	b   []byte
	err error
}

func (d *dec) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *dec) take(n int) []byte {
	if n > len(d.b) {
		d.fail(ErrShort)
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *dec) u8() uint8 {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *dec) u16() uint16 {
	if v := d.take(2); v != nil {
		return binary.LittleEndian.Uint16(v)
	}
	return 0
}

func (d *dec) u32() uint32 {
	if v := d.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (d *dec) u64() uint64 {
	if v := d.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (d *dec) bool() bool {
	v := d.u8()
	if v > 1 {
		d.fail(fmt.Errorf("wire: %d is no boolean", v))
	}
	return v == 1
}

func (d *dec) bytes() []byte {
	n := d.u32()
	if n > MaxString {
		d.fail(fmt.Errorf("wire: field of %d bytes is longer than %d", n, MaxString))
		return nil
	}
	v := d.take(int(n))
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (d *dec) string() string { return string(d.bytes()) }

// count reads a list's length, each of whose elements takes at least size bytes.
func (d *dec) count(size int) int {
	n := int(d.u32())
	if n*size > len(d.b) {
		d.fail(ErrShort)
		return 0
	}
	return n
}

// end is the decoder's verdict: its first fault, or bytes that no field took.
func (d *dec) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("wire: %d bytes after the last field", len(d.b))
	}
	return d.err
}
