package grant

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"kvferry/agent"
	"kvferry/wire"
)

var (
	peer  = wire.Life{1}
	other = wire.Life{2}
)

// Enter allows exactly what lies within the union of the granted ranges.
//
// req: PIPE-32
func TestEnterIsTheUnion(t *testing.T) {
	const regions, size = 2, 24
	rapid.Check(t, func(t *rapid.T) {
		var granted [regions][size]bool
		var ds []agent.Desc
		for range rapid.IntRange(0, 10).Draw(t, "ranges") {
			d := agent.Desc{
				Region: agent.Region(rapid.IntRange(0, regions-1).Draw(t, "region")),
				Offset: rapid.Uint64Range(0, size-1).Draw(t, "offset"),
			}
			d.Length = rapid.Uint64Range(0, size-d.Offset).Draw(t, "length")
			ds = append(ds, d)
			for i := range d.Length {
				granted[d.Region][d.Offset+i] = true
			}
		}
		table := New[string](func(uint64) {})
		if err := table.Open(1, peer, ds); err != nil {
			t.Fatal(err)
		}
		for region := range uint32(regions) {
			for from := range uint64(size) {
				ok := true
				for n := uint64(1); n <= size-from; n++ {
					ok = ok && granted[region][from+n-1]
					err := table.Enter(1, peer, []wire.Range{{Region: region, Offset: from, Length: n}}, "h")
					if (err == nil) != ok {
						t.Fatalf("%d+%d of region %d of %v: %v", from, n, region, ds, err)
					}
				}
			}
		}
	})
}

func TestEnterAtTheEndOfTheNumbers(t *testing.T) {
	const top = ^uint64(0)
	table := New[string](func(uint64) {})
	if err := table.Open(1, peer, []agent.Desc{{Offset: top - 10, Length: 100}, {Region: 1, Offset: 5, Length: 5}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r  wire.Range
		ok bool
	}{
		{wire.Range{Offset: top - 10, Length: 10}, true},
		{wire.Range{Offset: top - 10, Length: 11}, false},
		{wire.Range{Offset: top - 11, Length: 1}, false},
		{wire.Range{Offset: top - 10, Length: top}, false},
		{wire.Range{Region: 1, Offset: 6, Length: top}, false},
		{wire.Range{Region: 2, Offset: 6, Length: 1}, false},
	} {
		if err := table.Enter(1, peer, []wire.Range{c.r}, "h"); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

// A revoked epoch lets nobody in, is told quiet once, and only when the last has left.
//
// req: PIPE-32
func TestRevoke(t *testing.T) {
	var quiet []uint64
	table := New[string](func(epoch uint64) { quiet = append(quiet, epoch) })
	one := []wire.Range{{Length: 1}}
	enter := func(epoch uint64, who wire.Life, holder string) error { return table.Enter(epoch, who, one, holder) }
	if err := table.Open(1, peer, []agent.Desc{{Length: 10}}); err != nil {
		t.Fatal(err)
	}
	if table.Open(1, other, nil) == nil {
		t.Error("an epoch is granted twice")
	}
	if enter(1, other, "x") == nil {
		t.Error("another life came in")
	}
	if err := errors.Join(enter(1, peer, "a"), enter(1, peer, "a"), enter(1, peer, "b")); err != nil {
		t.Fatal(err)
	}
	if hs := table.Holders(1); len(hs) > 0 {
		t.Errorf("%v hold an epoch that is not revoked", hs)
	}
	for range 2 {
		if !table.Revoke(1) {
			t.Error("the epoch is written and not said to be")
		}
	}
	if enter(1, peer, "a") == nil {
		t.Error("a revoked epoch let somebody in")
	}
	if table.Open(1, peer, nil) == nil {
		t.Error("an epoch that is being revoked is granted again")
	}
	table.Leave(1, "a")
	table.Leave(1, "b")
	if hs := table.Holders(1); len(hs) != 1 || hs[0] != "a" || len(quiet) > 0 {
		t.Errorf("%v hold it, %v are quiet", hs, quiet)
	}
	table.Leave(1, "a")
	if hs := table.Holders(1); len(hs) > 0 || len(quiet) != 1 || quiet[0] != 1 {
		t.Errorf("%v hold it, %v are quiet", hs, quiet)
	}
	if enter(1, peer, "a") == nil {
		t.Error("an epoch that has ended let somebody in")
	}
	if table.Revoke(5) || len(quiet) != 2 || quiet[1] != 5 {
		t.Errorf("of an unknown epoch: %v are quiet", quiet)
	}
}
