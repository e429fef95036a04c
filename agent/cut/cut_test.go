package cut

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"kvferry/agent"
	"kvferry/wire"
)

// The parts of any transfer, put together, move the same bytes as the transfer in the same
// order, and each keeps to the limits; only the last says that it is.
func TestPartsAreTheTransfer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := draw(t)
		own := Regions{make([]byte, 4096), make([]byte, 4096)}
		if err := Check(tr, own); err != nil {
			t.Fatal(err)
		}
		limits := Limits{
			Ranges: rapid.IntRange(1, 5).Draw(t, "ranges"), Bytes: rapid.Uint64Range(1, 100).Draw(t, "bytes"),
		}
		want := pairs(tr)
		c := NewCutter(tr)
		var total uint64
		for last := false; !last; {
			p := c.Next(limits)
			if len(p.Local) != len(p.Remote) || len(p.Local) > limits.Ranges || p.Bytes > limits.Bytes {
				t.Fatalf("part %+v is over %+v", p, limits)
			}
			if wire.Sum(p.Local) != p.Bytes || wire.Sum(p.Remote) != p.Bytes {
				t.Fatalf("part %+v has other bytes than it says", p)
			}
			for i, l := range p.Local {
				r := p.Remote[i]
				if l.Length != r.Length || l.Length == 0 {
					t.Fatalf("range %+v to %+v", l, r)
				}
				for k := range l.Length {
					if len(want) == 0 || want[0] != (pair{l.Region, l.Offset + k, r.Region, r.Offset + k}) {
						t.Fatalf("byte %d of %+v to %+v is not next", k, l, r)
					}
					want = want[1:]
				}
			}
			total += p.Bytes
			last = p.Last
		}
		if len(want) > 0 || total != Bytes(tr) {
			t.Fatalf("%d bytes are left, of %d", len(want), Bytes(tr))
		}
	})
}

// pair is where one byte goes from and to.
type pair struct {
	fromRegion uint32
	from       uint64
	toRegion   uint32
	to         uint64
}

func pairs(tr *agent.Transfer) []pair {
	var ps []pair
	for i := range tr.LocalIdx {
		l, r := tr.Local[tr.LocalIdx[i]], tr.Remote[tr.RemoteIdx[i]]
		for k := range l.Length {
			ps = append(ps, pair{uint32(l.Region), l.Offset + k, uint32(r.Region), r.Offset + k})
		}
	}
	return ps
}

// draw gives a transfer in which neighbours often touch, so that ranges are joined.
func draw(t *rapid.T) *agent.Transfer {
	tr := &agent.Transfer{}
	off := [2]uint64{}
	for range rapid.IntRange(0, 12).Draw(t, "descs") {
		n := rapid.Uint64Range(0, 150).Draw(t, "length")
		var d [2]agent.Desc
		for side := range d {
			off[side] += rapid.SampledFrom([]uint64{0, 0, 0, 5}).Draw(t, "gap")
			d[side] = agent.Desc{Region: agent.Region(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "region")), Offset: off[side], Length: n}
			off[side] += n
		}
		tr.Local, tr.Remote = append(tr.Local, d[0]), append(tr.Remote, d[1])
	}
	if len(tr.Local) > 0 {
		for range rapid.IntRange(0, 15).Draw(t, "pairs") {
			i := rapid.Int32Range(0, int32(len(tr.Local)-1)).Draw(t, "index")
			tr.LocalIdx, tr.RemoteIdx = append(tr.LocalIdx, i), append(tr.RemoteIdx, i)
		}
		for i := range int32(len(tr.Local)) {
			tr.LocalIdx, tr.RemoteIdx = append(tr.LocalIdx, i), append(tr.RemoteIdx, i)
		}
	}
	return tr
}

// Blocks that lie side by side on both sides are one range.
func TestNeighboursAreJoined(t *testing.T) {
	l := agent.List{{Offset: 0, Length: 10}, {Offset: 10, Length: 10}, {Offset: 20, Length: 10}, {Offset: 40, Length: 10}}
	tr := &agent.Transfer{Local: l, Remote: l, LocalIdx: []int32{0, 1, 2, 3}, RemoteIdx: []int32{0, 1, 2, 3}}
	p := NewCutter(tr).Next(Limits{Ranges: 2, Bytes: 1000})
	if len(p.Local) != 2 || p.Local[0].Length != 30 || !p.Last {
		t.Errorf("%+v", p)
	}
}

func TestInside(t *testing.T) {
	r := Regions{make([]byte, 100)}
	for _, c := range []struct {
		region         uint32
		offset, length uint64
		ok             bool
	}{
		{0, 0, 100, true},
		{0, 100, 0, true},
		{0, 99, 1, true},
		{0, 0, 101, false},
		{0, 100, 1, false},
		{0, 101, 0, false},
		{1, 0, 0, false},
		{0, 1, 1<<64 - 1, false},
		{0, 1<<64 - 1, 1, false},
		{0, 1<<64 - 1, 1<<64 - 1, false},
	} {
		if err := r.Inside(c.region, c.offset, c.length); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := Check(&agent.Transfer{LocalIdx: []int32{0}}, r); !errors.Is(err, agent.ErrBadTransfer) {
		t.Error(err)
	}
}
