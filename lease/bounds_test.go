package lease

import (
	"fmt"
	"testing"

	"kvferry/wire"
)

// req: LEASE-06, LEASE-26
//
// TestQuietBeatDoesNotGrow: a heartbeat that nothing changed has the same bytes and the same
// allocations for one lease and for 20,000, on both sides.
func TestQuietBeatDoesNotGrow(t *testing.T) {
	cost := func(leases int) (bytes int, allocs float64) {
		table, renewals := NewTable(60), NewRenewals()
		p, d := wire.Life{1}, wire.Life{2}
		renewals.Up(0, p, 60)
		for i := range leases {
			id := fmt.Sprint("request-", i)
			table.Open(id)
			table.Grant(0, id)
			renewals.Join(0, p, wire.Lease{Request: id, Attempt: 1})
		}
		now := int64(0)
		round := func() {
			for _, b := range renewals.Due(now) {
				bytes = len(b.Msg.Append(nil))
				renewals.Acked(now, p, table.Renew(now, d, b.Msg))
			}
			if ids := table.Expire(now); len(ids) > 0 {
				t.Fatalf("%d expired", len(ids))
			}
			now += 10
		}
		for range 10 { // until all rest with the set
			round()
		}
		return bytes, testing.AllocsPerRun(10, round)
	}
	bytes, allocs := cost(1)
	bytes2, allocs2 := cost(20_000)
	if bytes != bytes2 || allocs != allocs2 {
		t.Errorf("%d bytes and %v allocations for one lease, %d and %v for 20,000", bytes, allocs, bytes2, allocs2)
	}
	if bytes > 64 {
		t.Errorf("%d bytes, want at most 64", bytes)
	}
}

// TestEarlyClaimsAreBounded: what one peer claims of requests that have not come is bounded; what
// came counts no more, and another peer's claims do not count.
func TestEarlyClaimsAreBounded(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	m := &wire.Heartbeat{Full: true, Version: 1}
	for i := range maxEarly + 1 {
		m.Joined = append(m.Joined, wire.Lease{Request: fmt.Sprint(i), Attempt: 1})
	}
	last := m.Joined[maxEarly]
	ack := table.Renew(0, d, m)
	if len(ack.Refused) != 1 || ack.Refused[0].Lease != last || ack.Refused[0].Reason != ErrMany.Error() {
		t.Fatalf("refused %v", ack.Refused)
	}
	if ack := table.Renew(0, wire.Life{3}, &wire.Heartbeat{Full: true, Version: 1, Joined: []wire.Lease{{Request: "x", Attempt: 1}}}); len(ack.Refused) != 0 {
		t.Errorf("another peer's is refused: %v", ack.Refused)
	}
	table.Open("7")
	if ack := table.Renew(0, d, &wire.Heartbeat{Base: 1, Version: 2, Joined: []wire.Lease{last}}); len(ack.Refused) != 0 {
		t.Errorf("one came, yet the next is refused: %v", ack.Refused)
	}
	table.Lost(d)
	if n := len(table.entries); n != 2 {
		t.Errorf("%d requests are kept of a peer that is lost, want the one that came and another peer's", n-1)
	}
}

// TestRefusalsAreBounded: a peer that never says that it heard is told of the latest ends only.
func TestRefusalsAreBounded(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	m := &wire.Heartbeat{Full: true, Version: 1}
	const ends = 3*maxRefusals + 10
	for i := range ends {
		id := fmt.Sprint(i)
		table.Open(id)
		m.Joined = append(m.Joined, wire.Lease{Request: id, Attempt: 1})
	}
	table.Renew(0, d, m)
	for i := range ends {
		table.End(fmt.Sprint(i), ErrUnknown)
	}
	ack := table.Renew(0, d, &wire.Heartbeat{Base: 1, Version: 1})
	n := len(ack.Refused)
	if n == 0 || n > 2*maxRefusals || ack.Refused[n-1].Lease != m.Joined[ends-1] {
		t.Errorf("told of %d ends", n)
	}
	// What one heartbeat claims in vain is answered whole, and then kept as far as the bound.
	for i := range m.Joined {
		m.Joined[i].Nonce = 1
	}
	m.Version = 2
	if ack := table.Renew(0, d, m); len(ack.Refused) != ends {
		t.Errorf("of %d claims %d are refused", ends, len(ack.Refused))
	}
	if ack := table.Renew(0, d, &wire.Heartbeat{Base: 2, Version: 2}); len(ack.Refused) != maxRefusals {
		t.Errorf("%d refusals are kept", len(ack.Refused))
	}
}

// TestTombsAreBounded: the latest ends are remembered, the earliest forgotten, and an ID that
// came and ended again counts as of its last end.
func TestTombsAreBounded(t *testing.T) {
	table := NewTable(60)
	end := func(id string) {
		table.Open(id)
		table.End(id, ErrExpired)
	}
	why := func(id string) error {
		return table.Complete(wire.Life{2}, &wire.Complete{Lease: wire.Lease{Request: id, Nonce: 1}})
	}
	end("again")
	for i := range maxTombs - 1 {
		end(fmt.Sprint(i))
	}
	if why("again") != ErrExpired || why("0") != ErrExpired {
		t.Fatal("forgotten too early")
	}
	end("again") // in the place of its first end
	end("last")  // in the place of "0"
	if why("again") != ErrExpired || why("last") != ErrExpired || why("1") != ErrExpired {
		t.Error("forgotten too early")
	}
	if why("0") != ErrUnknown {
		t.Error("remembered for ever")
	}
	if n := len(table.ended.byID); n > maxTombs || len(table.ended.ring) > maxTombs {
		t.Errorf("%d ends are kept", n)
	}
}

// req: LEASE-26
//
// TestNothingIsKept: when every request ended and every peer is lost, nothing is left of them but
// the tombs.
func TestNothingIsKept(t *testing.T) {
	table := NewTable(60)
	for i := range 100 {
		id := fmt.Sprint(i)
		table.Open(id)
		table.Grant(int64(i), id)
		peer := wire.Life{byte(i % 7)}
		table.Renew(int64(i), peer, &wire.Heartbeat{Full: true, Version: uint64(i + 1), Joined: []wire.Lease{{Request: id, Attempt: 1}, {Request: "early" + id, Attempt: 1}}})
	}
	for i := range 50 {
		table.End(fmt.Sprint(i), nil)
	}
	for i := range byte(7) {
		table.Lost(wire.Life{i})
	}
	for _, id := range table.Expire(1000) {
		table.End(id, ErrExpired)
	}
	if n := len(table.entries) + len(table.sets) + len(table.apart) + table.live; n != 0 {
		t.Errorf("%d things are left", n)
	}
	if table.line.front != nil || table.line.back != nil || table.renewed.front != nil || table.renewed.back != nil {
		t.Error("a list is not empty")
	}

	r, p := NewRenewals(), wire.Life{1}
	r.Up(0, p, 60)
	for i := range 100 {
		l := wire.Lease{Request: fmt.Sprint(i), Attempt: 1}
		r.Join(0, p, l)
		if i%2 == 0 {
			r.Leave(0, p, l)
		}
	}
	b := r.Due(0)[0]
	r.Acked(0, p, &wire.HeartbeatAck{Version: b.Msg.Version})
	if c := r.peers[p]; len(c.byID) != 50 || c.changed.front != nil {
		t.Errorf("of 50 leases %d are kept", len(c.byID))
	}
	r.Lost(p)
	if len(r.peers)+len(r.order)+r.Len() != 0 {
		t.Error("a lost peer is kept")
	}
}
