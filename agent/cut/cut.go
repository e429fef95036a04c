// Package cut checks transfers against the memory they name, and cuts them into parts that
// are small enough for a frame.
package cut

import (
	"fmt"

	"kvferry/agent"
	"kvferry/wire"
)

// Regions is the registered memory, by region number.
type Regions [][]byte

// Inside says why a range is not within the regions, or nil.
func (r Regions) Inside(region uint32, offset, length uint64) error {
	if uint64(region) >= uint64(len(r)) {
		return fmt.Errorf("region %d of %d", region, len(r))
	}
	size := uint64(len(r[region]))
	if offset > size || length > size-offset {
		return fmt.Errorf("bytes %d+%d of region %d, which has %d", offset, length, region, size)
	}
	return nil
}

// Bytes is the memory of a range that is Inside.
func (r Regions) Bytes(region uint32, offset, length uint64) []byte {
	return r[region][offset : offset+length : offset+length]
}

// Check says why a transfer cannot be done, or nil: an agent.ErrBadTransfer.
func Check(t *agent.Transfer, own Regions) error {
	if len(t.LocalIdx) != len(t.RemoteIdx) {
		return bad("%d local and %d remote indices", len(t.LocalIdx), len(t.RemoteIdx))
	}
	if len(t.Notice) > wire.MaxNotice {
		return bad("a notice of %d bytes is longer than %d", len(t.Notice), wire.MaxNotice)
	}
	for i := range t.LocalIdx {
		l, r := t.LocalIdx[i], t.RemoteIdx[i]
		if l < 0 || int(l) >= len(t.Local) {
			return bad("local index %d of %d", l, len(t.Local))
		}
		if r < 0 || int(r) >= len(t.Remote) {
			return bad("remote index %d of %d", r, len(t.Remote))
		}
		from, to := t.Local[l], t.Remote[r]
		if from.Length != to.Length {
			return bad("local range %d has %d bytes, remote range %d has %d", l, from.Length, r, to.Length)
		}
		if err := own.Inside(uint32(from.Region), from.Offset, from.Length); err != nil {
			return bad("local range %d is %v", l, err)
		}
		if to.Offset+to.Length < to.Offset {
			return bad("remote range %d ends past 2^64", r)
		}
	}
	return nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", agent.ErrBadTransfer, fmt.Sprintf(format, args...))
}

// Bytes is how many bytes a transfer moves. Its indices must be within its lists.
func Bytes(t *agent.Transfer) uint64 {
	var n uint64
	for _, i := range t.LocalIdx {
		n += t.Local[i].Length
	}
	return n
}

// Limits is how large a part may be.
type Limits struct {
	Ranges int
	Bytes  uint64
}

// Part is as much of a transfer as one frame carries: the bytes of Local[i] and Remote[i].
type Part struct {
	Local, Remote []wire.Range
	Bytes         uint64
	Last          bool
}

// Cutter gives a transfer's parts in order. There is at least one, which is empty where the
// transfer moves nothing.
type Cutter struct {
	t     *agent.Transfer
	at    int    // the pair to go on with
	taken uint64 // bytes of it that went before
}

// NewCutter cuts a transfer that Check passed.
func NewCutter(t *agent.Transfer) *Cutter { return &Cutter{t: t} }

// Next gives the next part.
func (c *Cutter) Next(limits Limits) Part {
	var p Part
	c.NextInto(&p, limits)
	return p
}

// NextInto is Next over an old part, whose lists it uses again.
func (c *Cutter) NextInto(p *Part, limits Limits) {
	p.Local, p.Remote, p.Bytes = p.Local[:0], p.Remote[:0], 0
	for c.at < len(c.t.LocalIdx) && len(p.Local) < limits.Ranges && p.Bytes < limits.Bytes {
		from, to := c.t.Local[c.t.LocalIdx[c.at]], c.t.Remote[c.t.RemoteIdx[c.at]]
		n := min(from.Length-c.taken, limits.Bytes-p.Bytes)
		p.add(uint32(from.Region), from.Offset+c.taken, uint32(to.Region), to.Offset+c.taken, n)
		if c.taken += n; c.taken == from.Length {
			c.at, c.taken = c.at+1, 0
		}
	}
	p.Last = c.at == len(c.t.LocalIdx)
}

// add appends a pair, or lengthens the last one where both its ends go on.
func (p *Part) add(fromRegion uint32, from uint64, toRegion uint32, to, n uint64) {
	p.Bytes += n
	if i := len(p.Local) - 1; i >= 0 {
		l, r := &p.Local[i], &p.Remote[i]
		if l.Region == fromRegion && l.Offset+l.Length == from && r.Region == toRegion && r.Offset+r.Length == to {
			l.Length += n
			r.Length += n
			return
		}
	}
	if n == 0 {
		return
	}
	p.Local = append(p.Local, wire.Range{Region: fromRegion, Offset: from, Length: n})
	p.Remote = append(p.Remote, wire.Range{Region: toRegion, Offset: to, Length: n})
}
