//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"slices"
	"time"

	"kvferry/agent"
)

// op is a transfer that goes on. It is posted in parts, so that a long one holds up neither short
// ones nor what else the owner has to do: some backends move the bytes inside of the call.
type op struct {
	kind    string
	t       *agent.Transfer
	peer    *peer
	next    int // index of the first pair that is not posted
	flights []flight
	err     error
	failed  time.Time // when err was set
}

// flight is a part that is posted.
type flight struct {
	request uintptr
	lists   [2]uintptr // that are of this part alone, or 0
}

// The most of a part, and how many parts of a transfer are in flight.
const (
	partBytes = 4 << 20
	partPairs = 4096
	parts     = 4
)

// patience is how long NIXL may take to let go of a part of a transfer that was given up, before
// that is logged. It is waited for however long it takes: its memory is not ours meanwhile.
const patience = 5 * time.Second

func (o *op) fail(err error) {
	if o.err == nil {
		o.err, o.failed = err, time.Now()
	}
}

// begin takes a transfer.
func (w *owner) begin(kind string, t *agent.Transfer) {
	p := w.peers[t.Peer]
	switch {
	case p == nil || !p.up:
		w.a.done(kind, t, agent.ErrUnknownPeer)
		return
	case p.lost != nil:
		w.a.done(kind, t, agent.Lost(p.lost.Err))
		return
	}
	for _, i := range t.RemoteIdx {
		d := t.Remote[i]
		if _, err := p.card.address(uint32(d.Region), d.Offset, d.Length); err != nil {
			w.a.done(kind, t, agent.Refused(err.Error()))
			return
		}
	}
	w.ops = append(w.ops, &op{kind: kind, t: t, peer: p})
}

// advance asks after what is in flight, posts what may be posted next, and ends what is done. It
// says whether anything moved.
func (w *owner) advance() bool {
	moved := false
	var ended []*op
	for _, o := range w.ops {
		if w.poll(o) {
			moved = true
		}
		// One part of each transfer in turn, so that a short one is not held up by a long one.
		if o.err == nil && o.next < len(o.t.LocalIdx) && len(o.flights) < parts {
			w.post(o)
			moved = true
		}
		if len(o.flights) == 0 && (o.err != nil || o.next == len(o.t.LocalIdx)) {
			ended = append(ended, o)
		}
	}
	for _, o := range ended {
		w.finish(o)
	}
	return moved || len(ended) > 0
}

func (w *owner) finish(o *op) {
	w.ops = slices.DeleteFunc(w.ops, func(other *op) bool { return other == o })
	if o.err == nil && o.t.Notice != nil {
		w.a.Notify(o.t.Peer, o.t.Notice)
	}
	w.a.done(o.kind, o.t, o.err)
	if o.peer.lost != nil {
		w.bury(o.t.Peer, o.peer)
	}
}

// poll takes the parts that have landed, and those that NIXL gives up. A part of a transfer that
// was given up is taken back.
func (w *owner) poll(o *op) bool {
	l, n := w.a.lib, len(o.flights)
	o.flights = slices.DeleteFunc(o.flights, func(f flight) bool {
		status := l.status(o.peer.out.agent, f.request)
		if status == statusGoingOn {
			return o.err != nil && w.letGo(o, f)
		}
		if status != statusOK {
			o.fail(agent.Lost(failed(o.kind, status)))
		}
		return w.letGo(o, f)
	})
	if o.err != nil && len(o.flights) > 0 && time.Since(o.failed) > patience {
		w.a.o.Log.Error("NIXL does not let go of a transfer that was given up; its blocks stay in use", "peer", o.t.Peer, "transfer", o.t.ID)
		o.failed = time.Now()
	}
	return len(o.flights) < n
}

// letGo releases a part's request, which a backend may refuse while the part is in flight.
func (w *owner) letGo(o *op, f flight) bool {
	l := w.a.lib
	if l.release(o.peer.out.agent, f.request) != statusOK {
		return false
	}
	l.destroyRequest(f.request)
	for _, list := range f.lists {
		if list != 0 {
			l.destroyList(list)
		}
	}
	return true
}

// post posts the next part.
func (w *owner) post(o *op) {
	from, bytes := o.next, uint64(0)
	for o.next < len(o.t.LocalIdx) && o.next-from < partPairs && bytes < partBytes {
		bytes += o.t.Local[o.t.LocalIdx[o.next]].Length
		o.next++
	}
	f, err := w.request(o, from, o.next)
	if err != nil {
		o.fail(err)
		return
	}
	if f.request == 0 {
		return // nothing to move
	}
	if status := w.a.lib.post(o.peer.out.agent, f.request, 0); status != statusOK && status != statusGoingOn {
		o.fail(agent.Lost(failed("post", status)))
	}
	o.flights = append(o.flights, f)
}

// request makes NIXL's request of the pairs [from,to).
func (w *owner) request(o *op, from, to int) (flight, error) {
	l, kind := w.a.lib, int32(0)
	if o.kind == "write" {
		kind = 1
	}
	var f flight
	out := o.peer.out
	li, ri := o.t.LocalIdx[from:to], o.t.RemoteIdx[from:to]
	local, ours := w.prepared(out, &out.lists, "", o.t.Local, w.here)
	remote, theirs := w.prepared(out, &o.peer.lists, o.peer.name, o.t.Remote, o.peer.there)
	if ours && theirs {
		err := failed("request", l.makeRequest(out.agent, kind, local, &li[0], uintptr(len(li)), remote, &ri[0], uintptr(len(ri)), &f.request, out.options))
		return f, err
	}
	pairs := make([][2]agent.Desc, 0, len(li))
	for i := range li {
		if d := o.t.Local[li[i]]; d.Length > 0 {
			pairs = append(pairs, [2]agent.Desc{d, o.t.Remote[ri[i]]})
		}
	}
	if len(pairs) == 0 {
		return f, nil
	}
	for side, where := range []func(agent.Desc) uint64{w.here, o.peer.there} {
		if err := failed("list", l.createList(0, &f.lists[side])); err != nil {
			return f, err
		}
		for _, p := range pairs {
			l.addDesc(f.lists[side], uintptr(where(p[side])), uintptr(p[side].Length), 0)
		}
	}
	return f, failed("request", l.createRequest(out.agent, kind, f.lists[0], f.lists[1], o.peer.name, &f.request, out.options))
}

// here is where a range of ours lies; cut.Check saw that it is inside.
func (w *owner) here(d agent.Desc) uint64 {
	return uint64(address(w.a.regions[d.Region])) + d.Offset
}

// there is where a range of the peer's lies, or 0 where it has no such range.
func (p *peer) there(d agent.Desc) uint64 {
	at, err := p.card.address(uint32(d.Region), d.Offset, d.Length)
	if err != nil {
		return 0
	}
	return at
}
