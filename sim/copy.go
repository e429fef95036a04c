package sim

import (
	"fmt"
	"hash/crc32"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// write is one copy in flight, from its Copy to its CopyDone.
type write struct {
	id      uint64
	from    *end
	sender  *proc
	request int
	epoch   uint64
	slice   int
	writer  int
	left    int // pieces that have not landed
	refused bool
	over    bool // CopyDone was given
	notice  []byte
	unread  []*piece
	began   int64
}

// piece is what a rank writes of one block; a copy without blocks is one piece of group -1.
type piece struct {
	of       *write
	group    int
	src, dst kvcache.BlockID
	parts    []transfer.Piece
	turn     int // of the source block
	held     bool
	index    int
	data     []byte
}

// landing is a block that lands now: its first half is in memory.
type landing struct {
	c *piece
	g *grant
}

// lane is one bulk connection in one direction.
type lane struct {
	e      *end
	index  int
	queue  []*piece
	going  bool
	arrive fifo
}

func newLane(e *end, index int) *lane {
	return &lane{e: e, index: index, arrive: fifo{path: e.l.path}}
}

// copyOut starts a copy.
func (p *proc) copyOut(o engine.Copy) {
	w := p.w
	r := p.requestOf(o)
	c := &write{id: o.ID, sender: p, request: r, epoch: o.Epoch, slice: o.Slice, writer: o.Writer, began: w.now}
	w.note("copy", p.node.index, r, o.Slice)
	w.logf("%s copies %sslice %d of %s to %s%s", p.node.name, partName(o), o.Slice, w.id(r), w.nodeOf(o.Peer).name, rankName(o.Writer))
	e := p.linkTo(o.Peer)
	if e == nil {
		w.after(0, func() { p.deliver(engine.CopyDone{ID: o.ID, Err: errNoPeer}) })
		return
	}
	c.from = e
	for _, g := range o.Groups {
		if len(g.Src) != len(g.Dst) {
			w.fail("protocol", "%s: slice %d of %s copies %d blocks to %d", p.node.name, o.Slice, w.id(r), len(g.Src), len(g.Dst))
			return
		}
		for i := range g.Src {
			c.add(g.Group, o.Layers, g.Src[i], g.Dst[i])
		}
	}
	if o.Notice != nil {
		p.checkLanded(o, e)
		if o.Checksum {
			o.Notice.Checksum = p.sum(o)
		}
		c.notice = o.Notice.Append(nil)
	}
	c.post()
	w.hook(r, AtCopy)
}

// requestOf is whose slice a copy brings.
func (p *proc) requestOf(o engine.Copy) int {
	for _, h := range p.held {
		if h.Send != nil && h.Send.IsReceiver(o.Peer, o.Epoch) {
			return p.w.indexOf(h.Request)
		}
	}
	panic("sim: a copy of no request")
}

// checkLanded looks that a slice's result leaves behind all parts of it. // PIPE-13
func (p *proc) checkLanded(o engine.Copy, e *end) {
	for _, x := range e.flight {
		if x.epoch == o.Epoch && x.slice == o.Slice && x.writer == o.Writer {
			p.w.fail("result last", "%s: the result of slice %d of %s%s leaves with a part of it in flight",
				p.node.name, o.Slice, p.w.id(x.request), rankName(o.Writer))
		}
	}
}

// partName tells which layers a copy brings, if it is not all of a slice.
func partName(o engine.Copy) string {
	if o.Notice != nil && o.Layers.Start == 0 {
		return ""
	}
	if o.Layers.Len() == 0 {
		return "the result of "
	}
	return fmt.Sprintf("layers [%d,%d) of ", o.Layers.Start, o.Layers.End)
}

func rankName(rank int) string {
	if rank == 0 {
		return ""
	}
	return fmt.Sprintf(" from rank %d", rank)
}

// add takes the writer's part of some layers of a block into the copy: from here on the block is
// in use.
func (c *write) add(group int, layers kvcache.Span, src, dst kvcache.BlockID) {
	p := c.sender
	parts := p.w.mapping.Part(c.writer, group, layers)
	if len(parts) == 0 {
		return // the rank holds nothing of them
	}
	s := p.mem.slot(group, src)
	h := s.holder(c.request)
	if h == nil {
		p.w.fail("no touch after release", "%s: slice %d of %s is copied from block %d of group %d, which is not its own",
			p.node.name, c.slice, p.w.id(c.request), src, group)
		return
	}
	h.uses++
	c.unread = append(c.unread, &piece{
		of: c, group: group, src: src, dst: dst, parts: parts, turn: s.turn, held: true, index: len(c.unread),
	})
}

// sum is the checksum of a slice, of the parts that have left before too.
func (p *proc) sum(o engine.Copy) (sum uint32) {
	for _, g := range o.Groups {
		for _, b := range g.Src {
			for _, part := range p.w.mapping.Pieces(o.Writer, g.Group) {
				block := p.mem.block(o.Writer, g.Group, b)
				sum = crc32.Update(sum, castagnoli, block[part.Src:part.Src+part.Len])
			}
		}
	}
	return sum
}

// verify sums up what a slice brought, and says so a moment later.
func (p *proc) verify(o engine.Verify) {
	w := p.w
	w.after(w.jitter('y', o.Epoch, uint64(o.Slice))/2, func() {
		if p.dead {
			return
		}
		var sum uint32
		for _, g := range o.Groups {
			for _, b := range g.Dst {
				for _, part := range w.mapping.Pieces(o.Writer, g.Group) {
					block := p.mem.block(part.DstRank, g.Group, b)
					sum = crc32.Update(sum, castagnoli, block[part.Dst:part.Dst+part.Len])
				}
			}
		}
		p.deliver(engine.Verified{Epoch: o.Epoch, Slice: o.Slice, Writer: o.Writer, Sum: sum})
	})
}

// post spreads the copy's blocks over the lanes.
func (c *write) post() {
	e := c.from
	e.flight = append(e.flight, c)
	pieces := c.unread
	if len(pieces) == 0 {
		pieces = []*piece{{of: c, group: -1}}
	}
	c.left = len(pieces)
	for _, x := range pieces {
		n := e.lanes[mix2(c.epoch, uint64(c.writer)<<32|uint64(c.slice)<<8|uint64(x.index))%uint64(len(e.lanes))]
		n.queue = append(n.queue, x)
		if !n.going {
			n.going = true
			e.l.w.after(0, n.pump)
		}
	}
}

// end gives CopyDone: the agent touches the source blocks no more.
func (c *write) end(err error) {
	if c.over {
		return
	}
	c.over = true
	for _, x := range c.unread {
		c.letGo(x)
	}
	e := c.from
	for i, x := range e.flight {
		if x == c {
			e.flight = append(e.flight[:i:i], e.flight[i+1:]...)
			break
		}
	}
	w := c.sender.w
	w.trace.copied(c.sender.node, fmt.Sprintf("%s slice %d%s", w.id(c.request), c.slice, rankName(c.writer)), c.began, w.now)
	if err != nil {
		w.logf("%s: slice %d of %s failed: %v", c.sender.node.name, c.slice, w.id(c.request), err)
	} else {
		w.hook(c.request, AtAcked)
	}
	c.sender.deliver(engine.CopyDone{ID: c.id, Err: err})
}

func (c *write) letGo(x *piece) {
	if x.held {
		x.held = false
		if h := c.sender.mem.slot(x.group, x.src).holder(c.request); h != nil {
			h.uses--
		}
	}
}

// pump reads the next block of a lane and puts it on its way.
func (n *lane) pump() {
	e, w := n.e, n.e.l.w
	for len(n.queue) > 0 && n.queue[0].of.over {
		n.queue = n.queue[1:]
	}
	if len(n.queue) == 0 || !e.up || e.p.dead {
		n.queue, n.going = nil, false
		return
	}
	if until := e.l.path.blockedUntil; until > w.now {
		w.after(until-w.now, n.pump)
		return
	}
	x := n.queue[0]
	n.queue = n.queue[1:]
	n.read(x)
	_, other := e.l.side(e.p)
	c := w.plan.Cluster
	at := w.now + c.Latency + w.jitter('p', x.of.epoch<<16|uint64(x.of.slice), uint64(x.index))
	n.arrive.send(w, at, func() int64 { return other.land(x) })
	w.after(n.blockTime(), n.pump)
}

func (n *lane) blockTime() int64 { return n.e.l.w.plan.Cluster.BlockTime * n.e.l.path.slow }

// read takes a block's bytes from the sender's memory.
func (n *lane) read(x *piece) {
	p := n.e.p
	if x.group < 0 {
		return
	}
	s := p.mem.slot(x.group, x.src)
	if s.turn != x.turn {
		p.w.fail("no touch after release", "%s: slice %d of %s reads block %d of group %d after its release",
			p.node.name, x.of.slice, p.w.id(x.of.request), x.src, x.group)
	}
	for _, part := range x.parts {
		x.data = append(x.data, p.mem.block(x.of.writer, x.group, x.src)[part.Src:part.Src+part.Len]...)
	}
	x.of.letGo(x)
	p.w.note("read", p.node.index, x.of.request, int(x.src))
	for range p.w.strikes(x.of.request, AtRead) {
		x.data[0] ^= 0x10
	}
}

// put writes the bytes [from,to) of what was read into the receiver's memory.
func (x *piece) put(m *memory, from, to int) {
	at := 0
	for _, part := range x.parts {
		lo, hi := max(from, at), min(to, at+part.Len)
		if lo < hi {
			copy(m.block(part.DstRank, x.group, x.dst)[part.Dst+lo-at:], x.data[lo:hi])
		}
		at += part.Len
	}
}

// land begins to put a block into the receiver's memory, and says how long that takes.
func (e *end) land(x *piece) int64 {
	p, w := e.p, e.p.w
	if !e.up || p.dead || x.of.refused {
		return 0
	}
	g, err := p.mayLand(x)
	if err != nil {
		x.of.refused = true
		w.logf("%s refuses slice %d of %s: %v", p.node.name, x.of.slice, w.id(x.of.request), err)
		e.ack(x.of, fmt.Errorf("the peer refused: %w", err))
		return 0
	}
	w.note("land", p.node.index, x.of.request, int(x.dst))
	w.hook(x.of.request, AtLand)
	x.put(p.mem, 0, len(x.data)/2)
	l := &landing{x, g}
	if g != nil {
		g.landing++
	}
	e.landing = append(e.landing, l)
	busy := w.plan.Cluster.BlockTime * e.l.path.slow / 2
	w.after(busy, func() { e.landed(l) })
	return busy
}

// landed ends the landing of a block; the last one of a copy is followed by its notice, and
// the notice by the acknowledgement.
func (e *end) landed(l *landing) {
	p := e.p
	if p.dead || !e.endLanding(l) {
		return
	}
	x := l.c
	x.put(p.mem, len(x.data)/2, len(x.data))
	x.of.left--
	if x.of.left == 0 && !x.of.refused {
		if x.of.notice != nil {
			p.hear(e, x.of.notice)
		}
		e.ack(x.of, nil)
	}
	if l.g != nil {
		p.left(l.g)
	}
}

func (e *end) endLanding(l *landing) bool {
	for i, x := range e.landing {
		if x == l {
			e.landing = append(e.landing[:i:i], e.landing[i+1:]...)
			return true
		}
	}
	return false
}

// stopLanding lets go of what is landing on a link that is lost.
func (e *end) stopLanding() {
	all := e.landing
	e.landing = nil
	for _, l := range all {
		if l.g != nil {
			e.p.left(l.g)
		}
	}
}

// lands says whether a block of a grant is landing on this link.
func (l *link) lands(p *proc, g *grant) bool {
	mine, _ := l.side(p)
	for _, x := range mine.landing {
		if x.g == g {
			return true
		}
	}
	return false
}

// ack tells the sender how a copy ended.
func (e *end) ack(c *write, err error) {
	w := e.l.w
	at := w.now + w.plan.Cluster.Latency + w.jitter('a', c.epoch, uint64(c.slice))
	e.control.send(w, at, func() int64 {
		if c.from.up && !c.sender.dead {
			c.end(err)
		}
		return 0
	})
}
