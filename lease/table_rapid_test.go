package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/wire"
)

// req: LEASE-01, LEASE-03, LEASE-04, LEASE-12, LEASE-16
//
// TestTableIsTheModel: whatever is granted, renewed, claimed, lost and ended in whatever order, a
// table says the same as one in which each lease has its own expiry.
func TestTableIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{table: NewTable(30), model: newModel(30)}
		t.Repeat(map[string]func(*rapid.T){
			"open":     p.open,
			"nonce":    p.nonce,
			"grant":    p.grant,
			"end":      p.end,
			"renew":    p.renew,
			"quiet":    p.quiet,
			"complete": p.complete,
			"lost":     p.lost,
			"advance":  p.advance,
			"":         p.check,
		})
	})
}

// pair is a table and its model, which have heard the same.
type pair struct {
	table *Table
	model *model
}

var (
	someID   = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
	somePeer = rapid.SampledFrom([]wire.Life{{1}, {2}, {3}})
	someWhy  = rapid.SampledFrom([]error{nil, ErrExpired, errors.New("aborted")})
)

func someLease(t *rapid.T) wire.Lease {
	return wire.Lease{
		Request: someID.Draw(t, "request"),
		Nonce:   rapid.Uint64Range(0, 2).Draw(t, "nonce"),
		Attempt: rapid.Uint32Range(1, 3).Draw(t, "attempt"),
	}
}

func (p *pair) open(t *rapid.T) {
	id := someID.Draw(t, "id")
	p.table.Open(id)
	p.model.open(id)
}

func (p *pair) nonce(t *rapid.T) {
	id, n := someID.Draw(t, "id"), rapid.Uint64Range(0, 2).Draw(t, "nonce")
	p.table.SetNonce(id, n)
	p.model.setNonce(id, n)
}

func (p *pair) grant(t *rapid.T) {
	id := someID.Draw(t, "id")
	p.table.Grant(p.model.now, id)
	p.model.grant(id)
}

func (p *pair) end(t *rapid.T) {
	id, why := someID.Draw(t, "id"), someWhy.Draw(t, "why")
	p.table.End(id, why)
	p.model.end(id, why)
}

func (p *pair) renew(t *rapid.T) {
	peer := somePeer.Draw(t, "peer")
	b := &wire.Heartbeat{Full: rapid.Bool().Draw(t, "full")}
	known := uint64(0)
	if r := p.model.readers[peer]; r != nil {
		known = r.version
	}
	b.Base = uint64(max(0, int64(known)+rapid.Int64Range(-1, 1).Draw(t, "base")))
	b.Version = uint64(max(0, int64(known)+rapid.Int64Range(-1, 2).Draw(t, "version")))
	for range rapid.IntRange(0, 3).Draw(t, "joined") {
		b.Joined = append(b.Joined, someLease(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "left") {
		b.Left = append(b.Left, someLease(t))
	}
	p.beat(t, peer, b)
}

// quiet is a heartbeat that goes on from just what the table has.
func (p *pair) quiet(t *rapid.T) {
	peer := somePeer.Draw(t, "peer")
	if r := p.model.readers[peer]; r != nil {
		p.beat(t, peer, &wire.Heartbeat{Base: r.version, Version: r.version})
	}
}

func (p *pair) beat(t *rapid.T, peer wire.Life, b *wire.Heartbeat) {
	got, want := ackText(p.table.Renew(p.model.now, peer, b)), ackText(p.model.renew(peer, b))
	if got != want {
		t.Fatalf("%+v from %v:\n got %s\nwant %s", b, peer[0], got, want)
	}
}

func (p *pair) complete(t *rapid.T) {
	peer, l := somePeer.Draw(t, "peer"), someLease(t)
	got, want := p.table.Complete(peer, &wire.Complete{Lease: l}), p.model.complete(peer, l)
	if !errors.Is(got, want) {
		t.Fatalf("completion of %+v by %v: %v, want %v", l, peer[0], got, want)
	}
}

func (p *pair) lost(t *rapid.T) {
	peer := somePeer.Draw(t, "peer")
	p.table.Lost(peer)
	p.model.lost(peer)
}

// advance lets time pass, and expires what has ended, or leaves that for later.
func (p *pair) advance(t *rapid.T) {
	p.model.now += rapid.Int64Range(0, 12).Draw(t, "by")
	if rapid.Bool().Draw(t, "late") {
		return
	}
	got, want := p.table.Expire(p.model.now), p.model.expire()
	if !slices.Equal(got, want) {
		t.Fatalf("at %d expired %v, want %v", p.model.now, got, want)
	}
}

func (p *pair) check(t *rapid.T) {
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		var until, claimed int64
		l := p.model.leases[id]
		if l != nil && l.granted {
			until = l.until
		}
		held := l != nil && l.holder != nil
		if held {
			claimed = l.until
		}
		if got := p.table.Until(id); got != until {
			t.Fatalf("%s is leased until %d, want %d", id, got, until)
		}
		if got, ok := p.table.Claimed(id); got != claimed || ok != held {
			t.Fatalf("%s is claimed until %d (%v), want %d (%v)", id, got, ok, claimed, held)
		}
	}
	if got, want := p.table.Deadline(), p.model.deadline(); got != want {
		t.Fatalf("deadline %d, want %d", got, want)
	}
	if got, want := p.table.Len(), p.model.len(); got != want {
		t.Fatalf("%d leases live, want %d", got, want)
	}
}

func leaseText(l wire.Lease) string {
	return fmt.Sprintf("%s/%d/%d", l.Request, l.Nonce, l.Attempt)
}

// ackText says an acknowledgement, its refusals in an order of their own.
func ackText(a *wire.HeartbeatAck) string {
	if a == nil {
		return "nothing"
	}
	var refused []wire.LeaseRefusal // a heartbeat of a random set may claim the same twice
	for _, r := range a.Refused {
		if !slices.Contains(refused, r) {
			refused = append(refused, r)
		}
	}
	slices.SortFunc(refused, func(x, y wire.LeaseRefusal) int {
		return cmp.Or(cmp.Compare(leaseText(x.Lease), leaseText(y.Lease)), cmp.Compare(x.Reason, y.Reason))
	})
	s := fmt.Sprintf("version %d", a.Version)
	if a.Resync {
		s += " resync"
	}
	for _, r := range refused {
		s += fmt.Sprintf("; %s: %s", leaseText(r.Lease), r.Reason)
	}
	return s
}
