package wire

import (
	"fmt"
	"slices"
)

// MaxRanges is how many ranges one frame may hold.
const MaxRanges = 4096

// rangeSize is a range's encoded length.
const rangeSize = 20

// Range is a part of a region, in bytes.
type Range struct {
	Region uint32
	Offset uint64
	Length uint64
}

func (e *enc) ranges(rs []Range) {
	e.b = slices.Grow(e.b, 4+len(rs)*rangeSize)
	e.u32(uint32(len(rs)))
	for _, r := range rs {
		e.u32(r.Region)
		e.u64(r.Offset)
		e.u64(r.Length)
	}
}

// ranges reads a list whose lengths sum up to at most MaxBulk, into the memory of an old one
// where that is enough.
func (d *dec) ranges(old []Range) []Range {
	n := d.count(rangeSize)
	if n == 0 {
		return nil
	}
	if n > MaxRanges {
		d.fail(fmt.Errorf("wire: %d ranges are more than %d", n, MaxRanges))
		return nil
	}
	rs := old[:0]
	if n > cap(rs) {
		rs = make([]Range, n)
	}
	rs = rs[:n]
	left := uint64(MaxBulk)
	for i := range rs {
		rs[i] = Range{Region: d.u32(), Offset: d.u64(), Length: d.u64()}
		if rs[i].Length > left {
			d.fail(fmt.Errorf("wire: ranges hold more than %d bytes", MaxBulk))
			return nil
		}
		left -= rs[i].Length
	}
	return rs
}

// Sum is how many bytes the ranges hold.
func Sum(rs []Range) uint64 {
	var n uint64
	for _, r := range rs {
		n += r.Length
	}
	return n
}
