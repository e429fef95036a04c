package lease

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/wire"
)

const (
	jointDuration  = 60
	jointInterval  = 10
	jointExtension = 40
)

// req: LEASE-03, LEASE-04, LEASE-06, LEASE-07, LEASE-08, LEASE-12
//
// TestRenewalsReachTheTable: two readers renew over channels that lose, delay, repeat and reorder
// heartbeats and their answers, and over connections that break. A lease ends exactly at the
// later of its grant and the duration, and of the last heartbeat that came through for it and the
// extension; once messages come through again, both sides have the same sets, no lease that is
// renewed ends, and a quiet set is renewed by less than 64 bytes.
func TestRenewalsReachTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		t.Repeat(map[string]func(*rapid.T){
			"grant":     w.grantAndJoin,
			"leave":     w.leave,
			"consume":   w.consume,
			"abort":     w.abort,
			"beat":      w.deliverBeat,
			"ack":       w.deliverAck,
			"lose":      w.lose,
			"reconnect": w.reconnect,
			"die":       w.die,
			"advance":   w.advance,
			"":          w.check,
		})
		w.heal(t)
	})
}

// world is a granter and two readers, and what each lease's end must be.
type world struct {
	now     int64
	table   *Table
	readers []*reader
	granted int
	until   map[string]int64 // of what is granted and not ended
	order   map[string]int
}

type reader struct {
	life     wire.Life
	granter  wire.Life
	renewals *Renewals
	wants    map[string]wire.Lease
	snaps    map[uint64][]wire.Lease // what each version of the set had
	beats    [][]byte                // on their way
	acks     [][]byte
	dead     bool
}

func newWorld() *world {
	w := &world{table: NewTable(jointDuration), until: map[string]int64{}, order: map[string]int{}}
	for i := range 2 {
		r := &reader{life: wire.Life{byte(i + 1)}, granter: wire.Life{9}, renewals: NewRenewals(), wants: map[string]wire.Lease{}, snaps: map[uint64][]wire.Lease{}}
		r.renewals.Up(0, r.granter, jointDuration)
		w.readers = append(w.readers, r)
	}
	return w
}

func (w *world) some(t *rapid.T) *reader {
	r := w.readers[rapid.IntRange(0, 1).Draw(t, "reader")]
	if r.dead {
		t.Skip("dead")
	}
	return r
}

// grantAndJoin is a new request that a reader claims before or after its prefill ended.
func (w *world) grantAndJoin(t *rapid.T) {
	r := w.some(t)
	w.granted++
	l := wire.Lease{Request: fmt.Sprint("r", w.granted), Nonce: uint64(w.granted), Attempt: 1}
	w.table.Open(l.Request)
	w.table.SetNonce(l.Request, l.Nonce)
	w.table.Grant(w.now, l.Request)
	w.until[l.Request], w.order[l.Request] = w.now+jointDuration, w.granted
	r.wants[l.Request] = l
	r.renewals.Join(w.now, r.granter, l)
}

func (w *world) pick(t *rapid.T, r *reader) wire.Lease {
	if len(r.wants) == 0 {
		t.Skip("no lease")
	}
	return r.wants[rapid.SampledFrom(slices.Sorted(maps.Keys(r.wants))).Draw(t, "lease")]
}

func (w *world) leave(t *rapid.T) {
	r := w.some(t)
	r.drop(w.now, w.pick(t, r))
}

func (r *reader) drop(now int64, l wire.Lease) {
	delete(r.wants, l.Request)
	r.renewals.Leave(now, r.granter, l)
}

// consume is a read that was proved: the completion is delivered, whatever happens to heartbeats.
func (w *world) consume(t *rapid.T) {
	r := w.some(t)
	l := w.pick(t, r)
	if err := w.table.Complete(r.life, &wire.Complete{Lease: l}); err == nil {
		w.table.End(l.Request, nil)
		delete(w.until, l.Request)
	} else if _, alive := w.until[l.Request]; alive {
		t.Fatalf("completion of %s refused: %v", l.Request, err)
	}
	r.drop(w.now, l)
}

// abort is the granter's own end of a request.
func (w *world) abort(t *rapid.T) {
	if len(w.until) == 0 {
		t.Skip("no lease")
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.until))).Draw(t, "lease")
	w.table.End(id, ErrUnknown)
	delete(w.until, id)
}

// take removes one message from a channel, or leaves it there to come again.
func take(t *rapid.T, channel *[][]byte) []byte {
	if len(*channel) == 0 {
		t.Skip("no message")
	}
	i := rapid.IntRange(0, len(*channel)-1).Draw(t, "message")
	b := (*channel)[i]
	if !rapid.Bool().Draw(t, "again") {
		*channel = slices.Delete(*channel, i, i+1)
	}
	return b
}

func (w *world) deliverBeat(t *rapid.T) {
	r := w.readers[rapid.IntRange(0, 1).Draw(t, "reader")]
	w.hear(t, r, take(t, &r.beats))
}

// hear is a heartbeat that reaches the granter. What it renews is what the reader's set had at
// its version.
func (w *world) hear(t *rapid.T, r *reader, b []byte) {
	m, err := wire.DecodeMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	beat := m.(*wire.Heartbeat)
	ack := w.table.Renew(w.now, r.life, beat)
	if ack == nil {
		return
	}
	r.acks = append(r.acks, ack.Append(nil))
	if ack.Resync {
		return
	}
	var want []string
	for _, l := range r.snaps[beat.Version] {
		refused := slices.ContainsFunc(ack.Refused, func(x wire.LeaseRefusal) bool { return x.Lease == l })
		_, alive := w.until[l.Request]
		if refused && alive {
			t.Fatalf("%s is refused, though it lives", l.Request)
		}
		if alive {
			want = append(want, l.Request)
			w.until[l.Request] = max(w.until[l.Request], w.now+jointExtension)
		}
	}
	if got := w.members(r); !sameNames(got, want) {
		t.Fatalf("after %+v the set is %v, want %v", beat, got, want)
	}
}

func (w *world) members(r *reader) []string {
	var ids []string
	if s := w.table.sets[r.life]; s != nil {
		for _, e := range s.members {
			ids = append(ids, e.id)
		}
	}
	return ids
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (w *world) deliverAck(t *rapid.T) {
	r := w.some(t)
	w.answer(t, r, take(t, &r.acks))
}

func (w *world) answer(t *rapid.T, r *reader, b []byte) {
	m, err := wire.DecodeMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	ack := m.(*wire.HeartbeatAck)
	for _, x := range ack.Refused {
		delete(r.wants, x.Lease.Request)
	}
	r.renewals.Acked(w.now, r.granter, ack)
}

func (w *world) lose(t *rapid.T) {
	r := w.readers[rapid.IntRange(0, 1).Draw(t, "reader")]
	channel := &r.beats
	if rapid.Bool().Draw(t, "ack") {
		channel = &r.acks
	}
	take(t, channel)
}

// reconnect breaks a connection; the granter may not notice, and messages of the old one may
// still come.
func (w *world) reconnect(t *rapid.T) {
	r := w.some(t)
	if rapid.Bool().Draw(t, "noticed") {
		w.table.Lost(r.life)
	}
	if rapid.Bool().Draw(t, "flushed") {
		r.beats, r.acks = nil, nil
	}
	r.renewals.Lost(r.granter)
	r.renewals.Up(w.now, r.granter, jointDuration)
	for _, id := range slices.Sorted(maps.Keys(r.wants)) {
		r.renewals.Join(w.now, r.granter, r.wants[id])
	}
}

// die ends a reader; its connection may seem to stand.
func (w *world) die(t *rapid.T) {
	r := w.some(t)
	r.dead = true
	if rapid.Bool().Draw(t, "noticed") {
		w.table.Lost(r.life)
	}
}

func (w *world) advance(t *rapid.T) { w.pass(t, rapid.Int64Range(1, jointInterval).Draw(t, "by")) }

func (w *world) pass(t *rapid.T, by int64) {
	w.now += by
	w.expire(t)
	for _, r := range w.readers {
		if r.dead {
			continue
		}
		for _, b := range r.renewals.Due(w.now) {
			r.snaps[b.Msg.Version] = r.set()
			r.beats = append(r.beats, b.Msg.Append(nil))
		}
	}
}

func (r *reader) set() []wire.Lease {
	var out []wire.Lease
	for _, m := range r.renewals.peers[r.granter].members {
		out = append(out, m.lease)
	}
	return out
}

func (w *world) expire(t *rapid.T) {
	var want []string
	for id, until := range w.until {
		if until <= w.now {
			want = append(want, id)
		}
	}
	slices.SortFunc(want, func(a, b string) int {
		return cmp.Or(cmp.Compare(w.until[a], w.until[b]), cmp.Compare(w.order[a], w.order[b]))
	})
	got := w.table.Expire(w.now)
	if !slices.Equal(got, want) {
		t.Fatalf("at %d expired %v, want %v", w.now, got, want)
	}
	for _, id := range got {
		w.table.End(id, ErrExpired)
		delete(w.until, id)
	}
}

func (w *world) check(t *rapid.T) {
	for id, until := range w.until {
		if got := w.table.Until(id); got != until {
			t.Fatalf("%s is leased until %d, want %d", id, got, until)
		}
	}
	if got := w.table.Len(); got != len(w.until) {
		t.Fatalf("%d leases live, want %d", got, len(w.until))
	}
}

// heal delivers everything from now on.
func (w *world) heal(t *rapid.T) {
	for _, r := range w.readers {
		r.beats, r.acks = nil, nil
	}
	for range 4 * jointInterval {
		w.calm(t)
	}
	held := map[string]bool{}
	for _, r := range w.readers {
		if r.dead {
			continue
		}
		want := slices.Sorted(maps.Keys(r.wants))
		// An empty set is silent: what the granter has of it from before a loss that it did not
		// notice lapses.
		if got := w.members(r); len(want) > 0 && !sameNames(got, want) {
			t.Fatalf("the granter's set is %v, the reader wants %v", got, want)
		}
		if got := r.renewals.Len(); got != len(want) {
			t.Fatalf("the reader renews %d leases, wants %d", got, len(want))
		}
		for _, id := range want {
			held[id] = true
		}
	}
	for range 2 * jointDuration {
		for _, n := range w.calm(t) {
			if n > 64 {
				t.Fatalf("a quiet heartbeat has %d bytes", n)
			}
		}
	}
	for id := range held {
		if _, alive := w.until[id]; !alive {
			t.Fatalf("%s expired while it was renewed", id)
		}
	}
	if len(held) != len(w.until) {
		t.Fatalf("%d leases live, %d are renewed", len(w.until), len(held))
	}
}

// calm is one step of time in which each message arrives. It gives the heartbeats' lengths.
func (w *world) calm(t *rapid.T) []int {
	var lengths []int
	w.pass(t, 1)
	for _, r := range w.readers {
		for _, b := range r.beats {
			lengths = append(lengths, len(b))
			w.hear(t, r, b)
		}
		for _, b := range r.acks {
			if !r.dead {
				w.answer(t, r, b)
			}
		}
		r.beats, r.acks = nil, nil
	}
	w.check(t)
	return lengths
}
