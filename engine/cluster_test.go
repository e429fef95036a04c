package engine

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// cluster is some prefill and decode engines, joined by memory instead of a network: copies
// are written block by block between their pools, results arrive in any order, connections
// break and processes die. A test says what happens next.
type cluster struct {
	t        *rapid.T
	now      int64
	lives    int
	layout   kvcache.Layout
	fencing  bool
	prefills []*host
	decodes  []*host
	links    []*link
	drops    []drop
	requests []*wanted
}

// link is a connection between two lives.
type link struct {
	p, d    *host
	toP     []wire.Message // in order
	toD     []wire.Message // in no order
	flights []*flight
	acks    []uint64 // copies whose bytes landed and whose sender does not know yet
}

// flight is a copy on its way.
type flight struct {
	copy  Copy
	pairs []pair // not written yet
}

type pair struct {
	group    int
	src, dst kvcache.BlockID
}

type drop struct{ by, peer wire.Life }

// wanted is a request of a client's, and the answer that it must get.
type wanted struct {
	req    Request
	p, d   *host // p is nil if d serves it whole
	tokens []int32
	text   string
	reason FinishReason
	legs   []*host // that are still to be asked
}

var (
	errLine = errors.New("line broken")
	errGPU  = errors.New("pass failed")
	errGone = errors.New("the other leg failed")
)

func (c *cluster) hosts() []*host { return append(slices.Clone(c.prefills), c.decodes...) }

func (c *cluster) hostAt(addr string) *host {
	for _, h := range c.hosts() {
		if h.addr == addr {
			return h
		}
	}
	return nil
}

// linkOf is the link between a host and a life, or nil.
func (c *cluster) linkOf(h *host, peer wire.Life) *link {
	for _, l := range c.links {
		if l.p == h && l.d.life == peer || l.d == h && l.p.life == peer {
			return l
		}
	}
	return nil
}

func (c *cluster) notify(from *host, n transfer.Notify) {
	l := c.linkOf(from, n.Peer)
	switch {
	case l == nil: // lost with the connection
	case l.p == from:
		l.toD = append(l.toD, n.Msg)
	default:
		l.toP = append(l.toP, n.Msg)
	}
}

// copyBegins puts a copy on its link; without one it fails in the next step.
func (c *cluster) copyBegins(from *host, o Copy) {
	f := &flight{copy: o}
	for _, g := range o.Groups {
		for i := range g.Src {
			f.pairs = append(f.pairs, pair{g.Group, g.Src[i], g.Dst[i]})
		}
	}
	l := c.linkOf(from, o.Peer)
	if l == nil {
		c.t.Fatalf("%s copies to a peer that is not connected", from.addr)
	}
	g := l.d.grants[o.Epoch]
	for _, p := range f.pairs {
		if g == nil || g.peer != from.life || !slices.Contains(g.blocks[p.group], p.dst) {
			c.t.Fatalf("%s writes block %d of group %d, which epoch %d does not grant", from.addr, p.dst, p.group, o.Epoch)
		}
	}
	l.flights = append(l.flights, f)
}

// land writes a copy's next block, or ends it. A receiver that fences refuses what it has
// revoked.
func (c *cluster) land(l *link, f *flight) {
	request := f.copy.Notice.Request
	if g := l.d.grants[f.copy.Epoch]; c.fencing && g.revoked {
		l.remove(f)
		l.p.step(CopyDone{ID: f.copy.ID, Err: errors.New("revoked")})
		return
	}
	if len(f.pairs) == 0 {
		l.remove(f)
		l.toD, l.acks = append(l.toD, f.copy.Notice), append(l.acks, f.copy.ID)
		return
	}
	if !l.p.holds(request, f.pairs, true) || !l.d.holds(request, f.pairs, false) {
		c.t.Fatalf("a copy of %s is in flight, and its blocks are not held on both sides", request)
	}
	p := f.pairs[0]
	f.pairs = f.pairs[1:]
	copy(l.d.toy.block(p.group, p.dst), l.p.toy.block(p.group, p.src))
}

func (l *link) remove(f *flight) {
	l.flights = slices.DeleteFunc(l.flights, func(x *flight) bool { return x == f })
}

// connect answers a host's oldest Connect.
func (c *cluster) connect(h *host, err error) {
	addr := h.asked[0]
	h.asked = h.asked[1:]
	p := c.hostAt(addr)
	if err != nil {
		h.step(ConnectFailed{Addr: addr, Err: err})
		return
	}
	if c.linkOf(h, p.life) == nil {
		c.links = append(c.links, &link{p: p, d: h})
		p.step(PeerUp{Peer: h.life, PoolBlocks: h.cfg.Blocks, Parallel: h.cfg.Parallel})
	}
	h.step(PeerUp{Addr: addr, Peer: p.life, PoolBlocks: p.cfg.Blocks, Parallel: p.cfg.Parallel})
}

// lose breaks a link. A side that has died does not hear of it.
func (c *cluster) lose(l *link, dead *host) {
	c.links = slices.DeleteFunc(c.links, func(x *link) bool { return x == l })
	if l.p != dead {
		for _, f := range l.flights {
			l.p.step(CopyDone{ID: f.copy.ID, Err: errLine})
		}
		for _, id := range l.acks {
			l.p.step(CopyDone{ID: id})
		}
		l.p.step(PeerLost{Peer: l.d.life, Err: errLine})
	}
	if l.d != dead {
		l.d.step(PeerLost{Peer: l.p.life, Err: errLine})
	}
}

// kill ends a process and starts another at its address. What it served has failed.
func (c *cluster) kill(h *host) {
	fresh := c.newHost(h.addr, h.cfg)
	for _, list := range [][]*host{c.prefills, c.decodes} {
		if i := slices.Index(list, h); i >= 0 {
			list[i] = fresh
		}
	}
	for id, a := range h.answers {
		if a.finish == nil {
			a.finish = &Finish{Request: id, Err: errLine}
		}
	}
	for _, l := range slices.Clone(c.links) {
		if l.p == h || l.d == h {
			c.lose(l, h)
		}
	}
}

// settle carries out what the agents must do at once: close the connections that were dropped.
func (c *cluster) settle() {
	for len(c.drops) > 0 {
		d := c.drops[0]
		c.drops = c.drops[1:]
		for _, l := range slices.Clone(c.links) {
			if (l.p.life == d.by && l.d.life == d.peer) || (l.d.life == d.by && l.p.life == d.peer) {
				c.lose(l, nil)
			}
		}
	}
}

// tick lets the time pass to an instant.
func (c *cluster) tick(now int64) {
	c.now = now
	for _, h := range c.hosts() {
		h.e.Tick(now)
		h.perform()
	}
}

// over says that every request has its end and every engine is idle.
func (c *cluster) over() bool {
	for _, r := range c.requests {
		if len(r.legs) > 0 {
			return false
		}
		for _, h := range []*host{r.p, r.d} {
			if h != nil && h.answers[r.req.ID].finish == nil {
				return false
			}
		}
	}
	for _, h := range c.hosts() {
		if !h.idle() || h.pass != nil {
			return false
		}
	}
	return true
}

// pick draws one of a list.
func pick[T any](t *rapid.T, list []T, label string) T {
	return list[rapid.IntRange(0, len(list)-1).Draw(t, label)]
}
