package tcp

import (
	"testing"

	"kvferry/wire"
)

// When two dial each other at once, both keep the same connection: the lower life's.
func TestBothSidesKeepTheSameConnection(t *testing.T) {
	low, high := wire.Life{1}, wire.Life{1, 0, 1}
	for _, c := range []struct {
		own, peer wire.Life
		ours      bool // the connection that is there is the one we dialled
		yields    bool
	}{
		{own: low, peer: high, ours: true, yields: false},
		{own: high, peer: low, ours: true, yields: true},
		// The peer dialled both, so the newer one counts.
		{own: low, peer: high, ours: false, yields: true},
		{own: high, peer: low, ours: false, yields: true},
	} {
		s := &slot{life: c.peer, ours: c.ours}
		if got := s.yields(c.own); got != c.yields {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
