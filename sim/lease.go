package sim

import (
	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/lease"
	"kvferry/wire"
)

const (
	// ampleLease is how many times the slowest message a lease has to last, if none is to lapse
	// between its grant and the first heartbeat.
	ampleLease = 20
	// retrySpan is how long requests in a queue may go on to look for an engine that is down.
	retrySpan = int64(5e9)
)

// lease is kv_lease_duration as the engines take it.
func (c Cluster) lease() int64 {
	if c.Lease == 0 {
		return c.Timeout
	}
	return c.Lease
}

// recurrent says whether a layer group keeps a state, which no handle can bring.
func (c Cluster) recurrent() bool {
	for _, w := range c.Windows {
		if w < 0 {
			return true
		}
	}
	return false
}

// holds says whether any prompt is held for its reader.
func (p Plan) holds() bool {
	for _, r := range p.Requests {
		if r.Hold {
			return true
		}
	}
	return false
}

// prompt is the most tokens that a request's prompt has.
func (p Plan) prompt(r Request) int {
	n := r.Prompt
	for r.After > 0 {
		r = p.Requests[r.After-1]
		n += r.Prompt + r.Max
	}
	return n
}

// keptTurn is a finished answer that an engine keeps.
type keptTurn struct {
	slot, request int
	tables        []kvcache.BlockTable
}

// leased is what one life of a reader claims, as far as the granter has acknowledged it.
type leased struct {
	members map[int]bool // requests
	until   int64        // on the granter's clock
}

// drawNonce gives a process its random bits.
func (p *proc) drawNonce() func() uint64 {
	n := uint64(0)
	return func() uint64 {
		n++
		return mix2(mix2(p.w.plan.Seed, uint64(p.node.index)<<32|uint64(p.node.lives)), n)
	}
}

// setSlots writes a step's nonces. The blocks were given back within the step, in which nobody
// could read.
func (p *proc) setSlots(outputs []engine.Output) {
	for _, o := range outputs {
		switch o := o.(type) {
		case engine.SetSlot:
			if p.slots[o.Slot] != 0 && o.Value != 0 {
				p.w.fail("protocol", "%s: lease slot %d is given anew and was never zeroed", p.node.name, o.Slot)
			}
			p.slots[o.Slot] = int64(o.Value)
			if o.Value == 0 {
				p.dropTurn(o.Slot)
			}
		case engine.Finish:
			if o.Handle != nil && o.Handle.Turn {
				p.keepTurn(o)
			}
		}
	}
}

func (p *proc) keepTurn(o engine.Finish) {
	l := p.w.layout
	t := keptTurn{slot: o.Handle.Slot, request: p.w.indexOf(o.Request)}
	for g, blocks := range o.Handle.Blocks {
		first := 0
		if !l.Groups[g].Recurrent() {
			first = l.TotalBlocks(o.Handle.Tokens) - len(blocks)
		}
		t.tables = append(t.tables, kvcache.BlockTable{First: first, Blocks: blocks})
	}
	p.turns = append(p.turns, t)
}

func (p *proc) dropTurn(slot int) {
	for i, t := range p.turns {
		if t.slot == slot {
			p.turns = append(p.turns[:i:i], p.turns[i+1:]...)
			return
		}
	}
}

// renewed follows what a granter acknowledged of a heartbeat.
func (p *proc) renewed(reader wire.Life, ack *wire.HeartbeatAck) {
	if p.beat == nil || ack.Resync {
		return
	}
	s := p.sets[reader]
	if s == nil {
		s = &leased{members: map[int]bool{}}
		p.sets[reader] = s
	}
	if p.beat.Full {
		clear(s.members)
	}
	for _, l := range p.beat.Left {
		delete(s.members, p.w.indexOf(l.Request))
	}
	for _, l := range p.beat.Joined {
		r := p.w.indexOf(l.Request)
		for _, other := range p.sets {
			delete(other.members, r)
		}
		s.members[r] = true
	}
	for _, x := range ack.Refused {
		delete(s.members, p.w.indexOf(x.Lease.Request))
	}
	s.until = p.clock() + lease.Extension(p.w.plan.Cluster.lease())
}

// forgetSet forgets the claims of a peer that is lost.
func (p *proc) forgetSet(ev engine.Event) {
	if lost, ok := ev.(engine.PeerLost); ok {
		delete(p.sets, lost.Peer)
	}
}

// noted looks whether a lease that expires had to: none does that a heartbeat has renewed, and
// none of a reader that lives where every heartbeat comes in good time (LEASE-03).
func (p *proc) noted(o engine.Noted) {
	w := p.w
	w.note("noted", p.node.index, int(o.What), o.Blocks)
	w.cover.counts[Transition{leaseMachine, nowhere, noteName(o), nowhere}]++
	if o.What != engine.LeaseExpired {
		if o.Reason != "" {
			w.logf("%s: %s cannot use what it was to read: %s", p.node.name, o.Request, o.Reason)
		}
		return
	}
	w.logf("%s: the lease of %s expires", p.node.name, o.Request)
	r := w.indexOf(o.Request)
	p.checkUnread(w.requests[r])
	for life, s := range p.sets {
		if !s.members[r] {
			continue
		}
		delete(s.members, r)
		if s.until > p.clock() {
			w.fail("renewed", "%s: the lease of %s expires %v before its renewal is over", p.node.name, o.Request, dur(s.until-p.clock()))
		}
		if d := w.nodeOf(life).proc; d != nil && d.life == life && !w.probing && w.plan.quiet() && w.linked(p, d) {
			w.fail("renewed", "%s: the lease of %s expires, and its reader lives", p.node.name, o.Request)
		}
	}
}

// checkUnread looks whether a lease expires that a connected engine reads under, though nothing
// keeps that from renewing it (LEASE-05).
func (p *proc) checkUnread(r *request) {
	w := p.w
	if w.probing || !w.plan.quiet() || r.plan.Twin != "" {
		return
	}
	for _, l := range r.legs {
		if l.kind != engine.DecodeLeg || l.proc == nil || l.proc.dead || !w.linked(p, l.proc) {
			continue
		}
		for _, h := range l.proc.held {
			if h.Request == r.id && h.Pull != nil && !h.Pull.Ended() && h.Pull.Err() == nil {
				w.fail("renewed", "%s: the lease of %s expires while %s reads", p.node.name, r.id, l.proc.node.name)
			}
		}
	}
}

// linked says whether two processes are connected and both know it.
func (w *world) linked(a, b *proc) bool {
	for _, l := range a.links {
		mine, other := l.side(a)
		if other.p == b {
			return mine.up && other.up
		}
	}
	return false
}
