package lease

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"kvferry/lease"
)

// step is how long the granter and the readers do nothing between two looks at the clock.
const step = int64(10 * time.Millisecond)

// Run measures. The garbage collector rests meanwhile, for its work cannot be told apart.
func Run(o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	o.say("granting %d leases to %d peers", o.Leases, o.Peers)
	b := newBed(o)
	r := &Report{
		Leases: o.Leases, Peers: o.Peers, Duration: o.Duration.Seconds(), Changes: o.Changes,
		Periods: o.Periods, Seed: o.Seed,
	}
	if err := b.warm(); err != nil {
		return nil, err
	}
	for _, part := range []func(*Report) error{b.quiet, b.resync, b.busy} {
		runtime.GC()
		if err := part(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (b *bed) interval() int64 { return lease.Interval(int64(b.o.Duration)) }

// warm renews until every lease has outlived its own instant, so that what is measured then is
// what goes on for ever.
func (b *bed) warm() error {
	var m meter
	for end := b.now + 2*int64(b.o.Duration); b.now < end; b.now += b.interval() {
		if err := b.beats(&m); err != nil {
			return err
		}
		if ids := b.table.Expire(b.now); len(ids) > 0 {
			return fmt.Errorf("%d leases expired while they were renewed", len(ids))
		}
	}
	if n := b.table.Len(); n != b.o.Leases {
		return fmt.Errorf("%d leases live, want %d", n, b.o.Leases)
	}
	return nil
}

// quiet is rounds in which nothing joins or leaves, ours and named in turn.
func (b *bed) quiet(r *Report) error {
	var sets, names meter
	rounds := 6 * b.o.Periods
	b.o.say("%d quiet rounds", rounds)
	for range rounds {
		b.now += b.interval()
		var err error
		sets.run(func() {
			err = b.beats(&sets)
			b.table.Expire(b.now)
		})
		if err != nil {
			return err
		}
		names.run(func() { b.named.beats(b, &names) })
	}
	r.Quiet = Pair{Sets: newCost(sets, rounds, b.o), Named: newCost(names, rounds, b.o)}
	return nil
}

// resync is the round in which the granter has lost a peer's set and asks for the whole.
func (b *bed) resync(r *Report) error {
	b.o.say("a resync")
	var m meter
	p := b.peers[len(b.peers)-1]
	b.table.Lost(p.life)
	b.now += b.interval()
	var err error
	m.run(func() {
		if err = b.beats(&m); err == nil {
			err = b.beat(p, &m) // the whole set, which is due at once
		}
	})
	r.Resync = Resync{Leases: len(p.leases), Bytes: m.bytes, CPU: m.cpu.Seconds()}
	if n := b.table.Len(); err == nil && n != b.o.Leases {
		return fmt.Errorf("%d leases live after the resync, want %d", n, b.o.Leases)
	}
	return err
}

// busy is leases that come and go, while some peers are not heard any more.
func (b *bed) busy(r *Report) error {
	for _, p := range b.peers[:b.o.silent()] {
		p.silent = true
		r.Expiry.Want += len(p.leases)
	}
	b.o.say("%d joins and leaves a second; %d leases expire", b.o.Changes, r.Expiry.Want)
	var sets, names, expiry meter
	start := b.now
	end := start + int64(b.o.Periods)*int64(b.o.Duration)
	for nextNamed := start; b.now < end; b.now += step {
		todo := b.plan((b.now - start) / step)
		var err error
		sets.run(func() { err = b.serve(todo, &sets) })
		if err != nil {
			return err
		}
		b.expire(r, &expiry)
		round := b.now >= nextNamed
		names.run(func() {
			b.named.change(todo)
			if round {
				b.named.beats(b, &names)
			}
		})
		if round {
			nextNamed += b.interval()
		}
		r.ChangesMade += len(todo)
	}
	sets.cpu += expiry.cpu
	rounds := 6 * b.o.Periods
	r.Busy = Pair{Sets: newCost(sets, rounds, b.o), Named: newCost(names, rounds, b.o)}
	r.Expiry.Longest = expiry.longest.Seconds()
	if r.Expiry.Leases != r.Expiry.Want {
		return fmt.Errorf("%d leases expired, want %d", r.Expiry.Leases, r.Expiry.Want)
	}
	return nil
}

// expire takes what ended, and notes how late.
func (b *bed) expire(r *Report, m *meter) {
	due := b.table.Deadline()
	if due == math.MaxInt64 || due > b.now {
		return
	}
	r.Expiry.Late = max(r.Expiry.Late, time.Duration(b.now-due).Seconds())
	m.run(func() {
		ids := b.table.Expire(b.now)
		for _, id := range ids {
			b.table.End(id, lease.ErrExpired)
		}
		r.Expiry.Leases += len(ids)
	})
}
