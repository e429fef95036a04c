package sim

import (
	"errors"
	"fmt"
	"slices"

	"kvferry/engine"
	"kvferry/transfer"
	"kvferry/wire"
)

var (
	errReset    = errors.New("connection reset by peer")
	errSilent   = errors.New("no sign of life")
	errRefused  = errors.New("connection refused")
	errNoPeer   = errors.New("the peer is not connected")
	errReplaced = errors.New("the peer made a new connection")
	errBroken   = errors.New("connection broken")
)

// path is the network between two nodes.
type path struct {
	blockedUntil int64
	slow         int64 // factor on a block's time
	beats        beatFault
}

// link is a connection between two processes. Each end knows it for up or lost by itself.
type link struct {
	w    *world
	path *path
	ends [2]*end // ends[0] dialled
}

// end is one side of a link.
type end struct {
	l       *link
	p       *proc
	up      bool
	control fifo     // from this end to the other
	lanes   []*lane  // from this end to the other
	flight  []*write // from this end, in order
	landing []*landing
}

func (l *link) side(p *proc) (mine, other *end) {
	if l.ends[0].p == p {
		return l.ends[0], l.ends[1]
	}
	return l.ends[1], l.ends[0]
}

// fifo is a stream of messages: what is sent first comes first, whatever each one's delay.
type fifo struct {
	path  *path
	items []arrival
	last  int64
	going bool
}

type arrival struct {
	at  int64
	run func() (busy int64)
}

// send has run happen at an instant, or later where something is before it. The stream is
// busy for as long after as run says.
func (f *fifo) send(w *world, at int64, run func() int64) {
	f.last = max(f.last, at)
	f.items = append(f.items, arrival{f.last, run})
	if !f.going {
		f.going = true
		f.wait(w, f.last)
	}
}

func (f *fifo) wait(w *world, at int64) { w.after(max(0, at-w.now), func() { f.next(w) }) }

func (f *fifo) next(w *world) {
	if f.path.blockedUntil > w.now {
		f.wait(w, f.path.blockedUntil)
		return
	}
	a := f.items[0]
	f.items = f.items[1:]
	busy := a.run()
	if len(f.items) == 0 {
		f.last = max(f.last, w.now+busy)
		f.going = false
		return
	}
	f.wait(w, max(f.items[0].at, w.now+busy))
}

// block stops everything between two nodes for a while. A link that stays silent for too long
// is lost, on either side by itself.
func (w *world) block(a, b *node, d int64) {
	p := w.paths[a.index][b.index]
	p.blockedUntil = max(p.blockedUntil, w.now+d)
	dead := w.plan.Cluster.DeadAfter
	for _, x := range []*node{a, b} {
		wait := dead + w.jitter('b', uint64(x.index), uint64(w.now))
		w.after(wait, func() {
			if p.blockedUntil < w.now || x.proc == nil {
				return
			}
			for _, l := range append([]*link(nil), x.proc.links...) {
				if l.path == p {
					l.down(x.proc, errSilent)
				}
			}
		})
	}
}

// connect dials an address.
func (p *proc) connect(addr string) {
	w := p.w
	to := w.nodeNamed(addr)
	way := w.paths[p.node.index][to.index]
	give := w.now + w.plan.Cluster.DeadAfter
	latency := w.plan.Cluster.Latency + w.jitter('c', uint64(p.node.index), uint64(to.index)<<32|uint64(p.node.lives))
	var arrive func()
	arrive = func() {
		switch {
		case p.dead:
		case w.now > give:
			p.deliver(engine.ConnectFailed{Addr: addr, Err: errSilent})
		case way.blockedUntil > w.now:
			w.after(min(way.blockedUntil, give+1)-w.now, arrive)
		case to.proc == nil:
			w.after(latency, func() { p.deliver(engine.ConnectFailed{Addr: addr, Err: errRefused}) })
		default:
			w.shake(p, to.proc, way, latency)
		}
	}
	w.after(latency, arrive)
}

// shake is the handshake, from where the listener is reached. Two processes have at most one
// link; where the dialler has lost it and the listener does not know yet, the old one goes
// first.
func (w *world) shake(from, to *proc, way *path, latency int64) {
	addr := to.node.name
	for _, l := range from.links {
		mine, other := l.side(from)
		if other.p == to && mine.up {
			w.after(latency, func() {
				if mine.up {
					from.deliverOf(mine, to.peerUp(addr))
				} else {
					from.deliver(engine.ConnectFailed{Addr: addr, Err: errBroken})
				}
			})
			return
		}
	}
	for _, l := range append([]*link(nil), to.links...) {
		if mine, other := l.side(to); other.p == from && mine.up {
			l.down(to, errReplaced)
		}
	}
	l := &link{w: w, path: way}
	for i, p := range []*proc{from, to} {
		e := &end{l: l, p: p, control: fifo{path: way}}
		for n := range w.plan.Cluster.Lanes {
			e.lanes = append(e.lanes, newLane(e, n))
		}
		l.ends[i] = e
	}
	l.ends[1].up = true
	for _, n := range l.ends[1].lanes {
		n.arrive.last = w.now + latency + 1 // nothing lands before the dialler knows
	}
	to.links = append(to.links, l)
	from.links = append(from.links, l)
	to.deliverOf(l.ends[1], from.peerUp(""))
	l.ends[1].control.send(w, w.now+latency, func() int64 {
		switch {
		case from.dead:
			l.loses(l.ends[1])
		case !l.ends[1].up:
			l.forget(from)
			from.deliver(engine.ConnectFailed{Addr: addr, Err: errReset})
		default:
			l.ends[0].up = true
			w.logf("%s is connected with %s", from.node.name, to.node.name)
			from.deliverOf(l.ends[0], to.peerUp(addr))
		}
		return 0
	})
}

// peerUp is what a peer learns of a process by the handshake.
func (p *proc) peerUp(addr string) engine.PeerUp {
	c := p.w.plan.Cluster
	return engine.PeerUp{
		Addr: addr, Peer: p.life, PoolBlocks: p.poolBlocks(), Parallel: c.parallel(p.node.role),
		Slots: c.Slots, LeaseDuration: c.lease(),
	}
}

func (p *proc) poolBlocks() []int {
	var out []int
	for g := range p.mem.groups {
		out = append(out, len(p.mem.groups[g].slots))
	}
	return out
}

// linkTo is the link on which this side speaks to a life. An agent that fences takes the one
// that is up. Without a fence that would not do: an engine that has not yet heard that a link
// was lost, and another made, would write over the new one what was agreed on the old. So there
// the engine speaks on the link whose PeerUp it took, or not at all.
func (p *proc) linkTo(life wire.Life) *end {
	if !p.w.plan.Cluster.Fencing {
		for _, e := range p.known {
			if _, other := e.l.side(p); other.p.life == life && e.up {
				return e
			}
		}
		return nil
	}
	for _, l := range p.links {
		if mine, other := l.side(p); other.p.life == life && mine.up {
			return mine
		}
	}
	return nil
}

// know follows what the engine is told of its links.
func (p *proc) know(n news) {
	if n.link == nil {
		return
	}
	p.known = slices.DeleteFunc(p.known, func(e *end) bool { return e == n.link })
	if _, up := n.ev.(engine.PeerUp); up {
		p.known = append(p.known, n.link)
	}
}

// down ends a link on one side: its copies end, what is landing stops, and the engine is told.
// The other side hears of it after what is on its way.
func (l *link) down(p *proc, err error) {
	mine, other := l.side(p)
	if !mine.up {
		return
	}
	w := l.w
	mine.up = false
	l.forget(p)
	w.note("down", p.node.index, other.p.node.index, 0)
	w.logf("%s loses %s: %v", p.node.name, other.p.node.name, err)
	for _, c := range append([]*write(nil), mine.flight...) {
		c.end(fmt.Errorf("peer lost: %w", err))
	}
	mine.stopLanding()
	p.stopReads(mine, err)
	p.deliverOf(mine, engine.PeerLost{Peer: other.p.life, Err: err})
	l.loses(other)
}

// loses has a side learn, by the network, that the other end is gone.
func (l *link) loses(e *end) {
	w := l.w
	at := w.now + w.plan.Cluster.Latency + w.jitter('l', uint64(e.p.node.index), uint64(w.now))
	w.after(max(at, l.path.blockedUntil)-w.now, func() { l.down(e.p, errReset) })
}

// abandon ends the side of a process that died.
func (l *link) abandon(p *proc, host bool) {
	mine, other := l.side(p)
	mine.up = false
	w := l.w
	if !host {
		l.loses(other)
		return
	}
	w.after(w.plan.Cluster.DeadAfter+w.jitter('h', uint64(other.p.node.index), uint64(w.now)), func() { l.down(other.p, errSilent) })
}

func (l *link) forget(p *proc) {
	for i, x := range p.links {
		if x == l {
			p.links = append(p.links[:i:i], p.links[i+1:]...)
			return
		}
	}
}

// drop is the engine's own wish to end a link.
func (p *proc) drop(o transfer.Drop) {
	if e := p.linkTo(o.Peer); e != nil {
		p.w.after(0, func() { e.l.down(p, o.Err) })
	}
}
