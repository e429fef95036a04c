package lease

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/wire"
)

// claims1 is a set's first heartbeat, which claims these.
func claims1(leases ...wire.Lease) *wire.Heartbeat {
	return &wire.Heartbeat{Full: true, Version: 1, Joined: leases}
}

// TestHeap: whatever is pushed and removed, the first is the earliest, and of equal ones the first
// granted, and each knows its place.
//
// req: LEASE-04
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap
		var all []*entry
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				e := &entry{own: rapid.Int64Range(0, 9).Draw(t, "own"), grant: uint64(rapid.IntRange(0, 99).Draw(t, "grant"))}
				h.push(e)
				all = append(all, e)
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing is there")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				h.remove(all[i])
				all = slices.Delete(all, i, i+1)
			},
			"": func(t *rapid.T) {
				if len(h) != len(all) {
					t.Fatalf("%d are in the heap, want %d", len(h), len(all))
				}
				for i, e := range h {
					if e.heapAt != i {
						t.Fatalf("the one at %d is said to be at %d", i, e.heapAt)
					}
				}
				if len(all) == 0 {
					return
				}
				first := slices.MinFunc(all, func(a, b *entry) int {
					return cmp.Or(cmp.Compare(a.own, b.own), cmp.Compare(a.grant, b.grant))
				})
				if h[0].own != first.own || h[0].grant != first.grant {
					t.Fatalf("the first is (%d, %d), want (%d, %d)", h[0].own, h[0].grant, first.own, first.grant)
				}
			},
		})
	})
}

// TestLeaseApart: a lease that keeps its lost set's instant, which is earlier than that of one
// granted before, expires at it and at no other's.
//
// req: LEASE-04
func TestLeaseApart(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	for _, id := range []string{"a", "b", "c"} {
		table.Open(id)
	}
	table.Grant(0, "a") // until 60
	table.Grant(0, "b")
	table.Renew(30, d, claims1(wire.Lease{Request: "b", Attempt: 1})) // until 70
	table.Grant(40, "c")                                              // until 100
	if len(table.apart) != 0 {
		t.Errorf("%d leases that were granted in order are apart", len(table.apart))
	}
	table.Lost(d)
	if len(table.apart) != 1 {
		t.Fatalf("%d leases are apart, so this shows nothing", len(table.apart))
	}
	for _, c := range []struct {
		now  int64
		want []string
		next int64
	}{{59, nil, 60}, {60, []string{"a"}, 70}, {69, nil, 70}, {70, []string{"b"}, 100}, {100, []string{"c"}, never}} {
		if got := table.Expire(c.now); !slices.Equal(got, c.want) || table.Deadline() != c.next {
			t.Errorf("at %d %v expire, and the next at %d: want %v and %d", c.now, got, table.Deadline(), c.want, c.next)
		}
	}
}

// TestUngrantedDoesNotExpire: with a set that lapses only those of its leases end that were
// granted.
//
// req: LEASE-04
func TestUngrantedDoesNotExpire(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	table.Open("a")
	table.Open("b")
	table.Grant(0, "a")
	table.Renew(30, d, claims1(wire.Lease{Request: "a", Attempt: 1}, wire.Lease{Request: "b", Attempt: 1}))
	if got := table.Expire(70); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v expire, want a", got)
	}
	if _, ok := table.Claimed("b"); !ok {
		t.Error("the claim of b has ended")
	}
}

// TestEarlyCount: of what a set claims those count as early that have not come, whatever leaves
// and however often one comes.
func TestEarlyCount(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	table.Open("here")
	lease := func(id string) wire.Lease { return wire.Lease{Request: id, Attempt: 1} }
	table.Renew(0, d, claims1(lease("here"), lease("early"), lease("later")))
	early := func(want int) {
		t.Helper()
		if n := table.sets[d].early; n != want {
			t.Errorf("%d are early, want %d", n, want)
		}
	}
	early(2)
	table.Renew(0, d, &wire.Heartbeat{Base: 1, Version: 2, Left: []wire.Lease{lease("here")}})
	early(2)
	table.Open("later")
	table.Open("later")
	early(1)
	table.Renew(0, d, &wire.Heartbeat{Base: 2, Version: 3, Left: []wire.Lease{lease("early")}})
	early(0)
}

// TestNonceOfAClaim: a nonce that is said again harms no claim, and a request that has not come has
// none.
//
// req: LEASE-14
func TestNonceOfAClaim(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	table.Open("a")
	table.SetNonce("a", 5)
	table.Renew(0, d, claims1(wire.Lease{Request: "a", Nonce: 5, Attempt: 1}, wire.Lease{Request: "early", Attempt: 1}))
	table.SetNonce("a", 5)
	if _, ok := table.Claimed("a"); !ok {
		t.Error("the claim ended with its own nonce")
	}
	table.SetNonce("early", 5)
	table.Open("early")
	ack := table.Renew(0, d, &wire.Heartbeat{Base: 1, Version: 2, Joined: []wire.Lease{{Request: "early", Nonce: 5, Attempt: 1}}})
	if len(ack.Refused) != 1 || ack.Refused[0].Reason != ErrNonce.Error() {
		t.Errorf("refused are %v", ack.Refused)
	}
}

// TestLeftOfAnOlderAttempt: that an older attempt left says nothing of the newer.
//
// req: LEASE-12
func TestLeftOfAnOlderAttempt(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	table.Open("a")
	table.Renew(0, d, claims1(wire.Lease{Request: "a", Attempt: 2}))
	table.Renew(0, d, &wire.Heartbeat{Base: 1, Version: 2, Left: []wire.Lease{{Request: "a", Attempt: 1}}})
	if _, ok := table.Claimed("a"); !ok {
		t.Error("the newer claim has ended")
	}
}

// TestConsumedIsNoRefusal: a reader whose claim ended as it should hears nothing of it.
func TestConsumedIsNoRefusal(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	table.Open("a")
	table.Renew(0, d, claims1(wire.Lease{Request: "a", Attempt: 1}))
	table.End("a", nil)
	if ack := table.Renew(0, d, &wire.Heartbeat{Base: 1, Version: 1}); len(ack.Refused) != 0 {
		t.Errorf("refused are %v", ack.Refused)
	}
}

// TestTombOfALaterEnd: the place of an ID's first end is given to another's, and its last end is
// remembered.
func TestTombOfALaterEnd(t *testing.T) {
	var ends tombs
	ends.add("again", tomb{why: ErrExpired})
	ends.add("x", tomb{})
	ends.add("again", tomb{why: ErrConsumed})
	for i := range maxTombs - 2 {
		ends.add(string(rune('a'+i%26))+strings.Repeat("y", 1+i/26), tomb{})
	}
	if d, ok := ends.find("again"); !ok || d.why != ErrConsumed {
		t.Errorf("found %v, %v", d, ok)
	}
}

// TestNewerClaimTakesThePlace: of a request a set has one claim.
func TestNewerClaimTakesThePlace(t *testing.T) {
	r, p := NewRenewals(), wire.Life{1}
	r.Up(0, p, 60)
	r.Join(0, p, wire.Lease{Request: "a", Attempt: 1})
	r.Join(0, p, wire.Lease{Request: "a", Attempt: 2})
	if got := r.Due(0)[0].Msg.Joined; r.Len() != 1 || len(got) != 1 || got[0].Attempt != 2 {
		t.Errorf("%d leases, %v", r.Len(), got)
	}
}

// TestLeaveOutlivesAnOldAck: an answer that was made before the last lease left does not keep the
// heartbeat that tells of it.
//
// req: LEASE-08
func TestLeaveOutlivesAnOldAck(t *testing.T) {
	r, p := NewRenewals(), wire.Life{1}
	l := wire.Lease{Request: "a", Attempt: 1}
	r.Up(0, p, 60)
	r.Join(0, p, l)
	b := r.Due(0)[0]
	r.Leave(1, p, l)
	r.Acked(2, p, &wire.HeartbeatAck{Version: b.Msg.Version})
	if r.Deadline() != Interval(60) {
		t.Fatalf("the next heartbeat is due at %d", r.Deadline())
	}
	if m := r.Due(Interval(60))[0].Msg; len(m.Left) != 1 || m.Left[0] != l {
		t.Errorf("it says %+v", m)
	}
}

// TestRefusedAfterItLeft: a peer that refuses what has left already changes nothing.
func TestRefusedAfterItLeft(t *testing.T) {
	r, p := NewRenewals(), wire.Life{1}
	l := wire.Lease{Request: "a", Attempt: 1}
	r.Up(0, p, 60)
	r.Join(0, p, l)
	r.Acked(0, p, &wire.HeartbeatAck{Version: r.Due(0)[0].Msg.Version})
	r.Leave(1, p, l)
	v := r.Due(Interval(60))[0].Msg.Version
	r.Acked(11, p, &wire.HeartbeatAck{Version: v, Refused: []wire.LeaseRefusal{{Lease: l, Reason: "no"}}})
	if r.Len() != 0 || r.Deadline() != never {
		t.Errorf("%d leases, next heartbeat at %d", r.Len(), r.Deadline())
	}
}

// TestSlotsSayWhichIsMisused: a slot that cannot be is refused by its number.
func TestSlotsSayWhichIsMisused(t *testing.T) {
	for _, slot := range []int{-1, 2} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.Contains(s, "is not taken") {
					t.Errorf("slot %d: %q", slot, s)
				}
			}()
			NewSlots(2, func() uint64 { return 1 }).Free(slot)
		}()
	}
}

func TestAddDoesNotOverflow(t *testing.T) {
	for _, c := range [][3]int64{{1, 2, 3}, {math.MaxInt64, 1, math.MaxInt64}, {math.MinInt64, -1, math.MinInt64}, {math.MinInt64, 1, math.MinInt64 + 1}} {
		if got := add(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestCompleteByID: a completion that names no nonce counts if it is the claim's that holds the
// request, whatever the slot's nonce is, and no other's.
//
// req: LEASE-16
func TestCompleteByID(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	l := wire.Lease{Request: "a", Attempt: 2}
	table.Open("a")
	table.SetNonce("a", 5)
	table.Renew(0, d, claims1(l))
	for _, c := range []struct {
		from wire.Life
		l    wire.Lease
		want error
	}{
		{wire.Life{3}, l, ErrNonce},
		{d, wire.Lease{Request: "a", Attempt: 3}, ErrNonce},
		{d, wire.Lease{Request: "a", Nonce: 6, Attempt: 2}, ErrNonce},
		{d, l, nil},
	} {
		if err := table.Complete(c.from, &wire.Complete{Lease: c.l}); err != c.want {
			t.Errorf("%+v of %v: %v, want %v", c.l, c.from, err, c.want)
		}
	}
	if _, ok := table.Claimed("a"); ok {
		t.Error("it is claimed after its completion")
	}
}

// TestCompleteWithoutSlot: what is leased without a slot has no nonce that a completion could name:
// its ID is enough, but for the claim of another reader.
//
// req: LEASE-16, LEASE-19
func TestCompleteWithoutSlot(t *testing.T) {
	table, d := NewTable(60), wire.Life{2}
	l := wire.Lease{Request: "a", Attempt: 1}
	done := &wire.Complete{Lease: l}
	table.Open("a")
	if err := table.Complete(d, done); err != ErrNonce {
		t.Errorf("before it is leased: %v", err)
	}
	table.Grant(0, "a")
	if err := table.Complete(d, done); err != nil {
		t.Errorf("leased, and claimed by nobody: %v", err)
	}
	table.Renew(0, wire.Life{3}, claims1(l))
	if err := table.Complete(d, done); err != ErrHeld {
		t.Errorf("claimed by another reader: %v", err)
	}
	table.SetNonce("a", 5)
	if err := table.Complete(wire.Life{4}, done); err != ErrNonce {
		t.Errorf("with a slot: %v", err)
	}
}

// TestClaimedTwice: a claim that was only early can be taken over, and one that is made again is
// one.
//
// req: LEASE-12
func TestClaimedTwice(t *testing.T) {
	table, first, second := NewTable(60), wire.Life{2}, wire.Life{3}
	table.Renew(0, first, claims1(wire.Lease{Request: "a", Attempt: 1}))
	table.Renew(30, second, claims1(wire.Lease{Request: "a", Attempt: 2}))
	table.Renew(30, second, &wire.Heartbeat{Base: 1, Version: 2, Joined: []wire.Lease{{Request: "a", Attempt: 3}}})
	if until, ok := table.Claimed("a"); !ok || until != 70 {
		t.Errorf("it is claimed until %d, %v: want 70", until, ok)
	}
	if n, m := len(table.sets[first].members), len(table.sets[second].members); n != 0 || m != 1 {
		t.Errorf("the sets have %d and %d claims, want 0 and 1", n, m)
	}
}
