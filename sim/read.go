package sim

import (
	"fmt"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
)

// fetch is what a process reads of a peer's memory: blocks, or lease slots. The peer's engine has
// no part in it, and its memory is what it is at each instant.
type fetch struct {
	id      uint64
	e       *end // the reader's
	source  *proc
	request int
	slice   int
	writer  int
	pieces  []readPiece
	next    int   // of pieces
	slots   []int // what is read if it is slots
	values  []int64
	over    bool
	began   int64
}

// readPiece is what a rank has of one block.
type readPiece struct {
	group    int
	src, dst kvcache.BlockID
	parts    []transfer.Piece
	size     int
}

// read begins to read blocks into those of one request, which no pass uses meanwhile.
func (p *proc) read(o engine.Read) {
	w := p.w
	ranks := w.mapping
	if p.node.role != engine.Decode {
		ranks = w.back
	}
	rd := &fetch{id: o.ID, request: nobody, slice: o.Slice, writer: o.Writer, began: w.now}
	for _, g := range o.Groups {
		for i := range g.Src {
			rd.add(p, ranks.Pieces(o.Writer, g.Group), g.Group, g.Src[i], g.Dst[i])
		}
	}
	if w.bad != nil {
		return
	}
	w.note("fetch", p.node.index, rd.request, o.Slice)
	w.logf("%s reads slice %d of %s from %s%s", p.node.name, o.Slice, w.id(rd.request), w.nodeOf(o.Peer).name, rankName(o.Writer))
	if rd.e = p.linkTo(o.Peer); rd.e == nil {
		p.hold(rd, -1)
		w.after(0, func() { p.deliver(engine.CopyDone{ID: o.ID, Err: errNoPeer}) })
		return
	}
	p.start(rd)
}

// start sends a read on its way.
func (p *proc) start(rd *fetch) {
	w := p.w
	_, other := rd.e.l.side(p)
	rd.source = other.p
	p.reading = append(p.reading, rd)
	w.after(w.plan.Cluster.Latency+w.jitter('f', rd.id, uint64(p.node.index)), func() { rd.proceed(p) })
}

// add takes a block into the read: it is in use until the read has ended.
func (rd *fetch) add(p *proc, parts []transfer.Piece, g int, src, dst kvcache.BlockID) {
	if len(parts) == 0 {
		return // the rank holds nothing of it
	}
	s := p.mem.slot(g, dst)
	if len(s.holders) != 1 || rd.request != nobody && s.holders[0].request != rd.request {
		p.w.fail("one owner", "%s reads into block %d of group %d, which is not one request's alone", p.node.name, dst, g)
		return
	}
	rd.request = s.holders[0].request
	s.holders[0].reads++
	x := readPiece{group: g, src: src, dst: dst, parts: parts}
	for _, part := range parts {
		x.size += part.Len
	}
	rd.pieces = append(rd.pieces, x)
}

// hold counts the read as a user of its blocks, in or out.
func (p *proc) hold(rd *fetch, d int) {
	for _, x := range rd.pieces {
		if h := p.mem.slot(x.group, x.dst).holder(rd.request); h != nil {
			h.reads += d
		}
	}
}

// proceed takes the next half block, or the slots, as they are now. What does not get through waits
// until the link is known to be lost.
func (rd *fetch) proceed(p *proc) {
	w := p.w
	way := rd.e.l.path
	switch {
	case rd.over || p.dead || rd.source.dead || !rd.e.up:
		return
	case way.blockedUntil > w.now:
		w.after(way.blockedUntil-w.now, func() { rd.proceed(p) })
		return
	case rd.slots != nil:
		for _, slot := range rd.slots {
			rd.values = append(rd.values, rd.source.slots[slot])
		}
	case rd.next < 2*len(rd.pieces):
		x := rd.pieces[rd.next/2]
		if rd.next%2 == 0 {
			w.note("piece", p.node.index, rd.request, int(x.dst))
			w.hook(rd.request, AtPull)
			x.move(rd, p, 0, x.size/2)
		} else {
			x.move(rd, p, x.size/2, x.size)
		}
		rd.next++
		w.after(max(1, w.plan.Cluster.BlockTime*way.slow/2), func() { rd.proceed(p) })
		return
	}
	w.after(w.plan.Cluster.Latency+w.jitter('g', rd.id, uint64(p.node.index)), func() { p.readOver(rd, nil) })
}

// move copies the bytes [from,to) of the source's block into ours.
func (x readPiece) move(rd *fetch, p *proc, from, to int) {
	at := 0
	src := rd.source.mem.block(rd.writer, x.group, x.src)
	for _, part := range x.parts {
		lo, hi := max(from, at), min(to, at+part.Len)
		if lo < hi {
			dst := p.mem.block(part.DstRank, x.group, x.dst)
			copy(dst[part.Dst+lo-at:part.Dst+hi-at], src[part.Src+lo-at:])
		}
		at += part.Len
	}
}

// readOver ends a read: nothing more comes into the blocks.
func (p *proc) readOver(rd *fetch, err error) {
	if rd.over || p.dead {
		return
	}
	w := p.w
	rd.over = true
	for i, x := range p.reading {
		if x == rd {
			p.reading = append(p.reading[:i:i], p.reading[i+1:]...)
			break
		}
	}
	if rd.slots != nil {
		w.logf("%s has read lease slots %v of %s: %s", p.node.name, rd.slots, rd.source.node.name, verdict(err))
		p.deliver(engine.SlotsRead{ID: rd.id, Values: rd.values, Err: err})
		return
	}
	p.hold(rd, -1)
	w.logf("%s has read slice %d of %s: %s", p.node.name, rd.slice, w.id(rd.request), verdict(err))
	w.trace.copied(p.node, fmt.Sprintf("%s reads slice %d%s", w.id(rd.request), rd.slice, rankName(rd.writer)), rd.began, w.now)
	p.deliver(engine.CopyDone{ID: rd.id, Err: err})
}

// stopReads ends what is read over a link that is lost.
func (p *proc) stopReads(e *end, err error) {
	for _, rd := range append([]*fetch(nil), p.reading...) {
		if rd.e == e {
			p.readOver(rd, fmt.Errorf("peer lost: %w", err))
		}
	}
}

// readSlots reads lease slots of a peer.
func (p *proc) readSlots(o engine.ReadSlots) {
	w := p.w
	w.note("slots", p.node.index, len(o.Slots), o.Writer)
	for _, r := range w.requests {
		if r.handle != nil && r.handle.Life == o.Peer && len(o.Slots) > 0 && r.handle.Slot == o.Slots[0] && !r.over {
			w.hook(r.index, AtSlots)
		}
	}
	e := p.linkTo(o.Peer)
	if e == nil {
		w.after(0, func() { p.deliver(engine.SlotsRead{ID: o.ID, Err: errNoPeer}) })
		return
	}
	p.start(&fetch{id: o.ID, e: e, request: nobody, writer: o.Writer, slots: o.Slots})
}
