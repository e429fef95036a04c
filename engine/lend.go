package engine

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/lease"
	"kvferry/transfer"
	"kvferry/wire"
)

// lends says whether a request's blocks are another engine's to wait for: by its session they are
// released, and by nothing else.
func (s *seq) lends() bool { return s.send != nil || s.offer != nil }

// lent says whether a pass or a copy uses the blocks of a request that lends.
func (s *seq) lent() bool {
	switch {
	case s.send != nil:
		return s.send.InFlight()
	case s.offer != nil:
		return s.offer.InFlight()
	}
	return false
}

// stepLend tells the session of a prefill leg what happened to its blocks.
func (e *Engine) stepLend(now int64, s *seq, ev interface {
	transfer.SendEvent
	transfer.OfferEvent
},
) {
	if s.send != nil {
		e.stepSend(now, s, ev)
	} else {
		e.stepOffer(now, s, ev)
	}
}

// openOffer makes the session of a prompt that is computed here and read by whoever has its
// handle.
func (e *Engine) openOffer(now int64, s *seq) {
	s.offer = transfer.NewOffer(transfer.OfferConfig{
		Request: s.req.ID, Layout: e.cfg.Layout, PromptLen: len(s.req.Tokens),
	}, now)
	e.lend.offers++
	e.watched("offer", s.req.ID, "", nil, s.offer.Phase())
}

func (e *Engine) stepOffer(now int64, s *seq, ev transfer.OfferEvent) {
	from := s.offer.Phase()
	s.offer.Step(now, ev)
	e.watched("offer", s.req.ID, from, ev, s.offer.Phase())
	for _, o := range s.offer.Outputs() {
		switch o := o.(type) {
		case transfer.Commit:
			e.pools.Commit(s.hold, s.req.Tokens)
		case transfer.Offered:
			e.lend.leases.Grant(now, s.req.ID)
			e.finishWith(s, Finish{Handle: e.handleOf(s, o.Tables), First: firstOf(o.Aux)})
		case transfer.Failed:
			e.finish(s, "", o.Err)
			e.leave(s)
		case transfer.Release:
			e.lend.offers--
			e.lend.leases.End(s.req.ID, s.offer.Err())
			e.release(s)
		case transfer.Record:
			e.emit(Record{Request: s.req.ID, Record: o})
		default:
			panic(fmt.Sprintf("engine: an offer gave %T", o))
		}
	}
}

func firstOf(a *wire.Aux) *Sampled {
	if a == nil {
		return nil // the prompt was computed anew after a preemption
	}
	return &Sampled{TokenLogprob: a.First, Top: a.Top}
}

// handleOf is what a reader needs of a prompt that is computed.
func (e *Engine) handleOf(s *seq, tables []kvcache.BlockTable) *Handle {
	total := e.cfg.Layout.TotalBlocks(len(s.req.Tokens))
	h := &Handle{
		Request: s.req.ID, Tokens: len(s.req.Tokens), Slot: s.slot, Nonce: s.nonce, Cached: s.cached,
		Hashes: kvcache.Chain(e.cfg.Salt, e.cfg.Layout.BlockTokens, s.req.Tokens),
	}
	if p := s.req.Pull; p != nil {
		h.Before = TurnRef{p.Life, p.Nonce}
	}
	for g, t := range tables {
		if !e.cfg.Layout.Groups[g].Recurrent() {
			t = t.Capped(total)
		}
		h.Blocks = append(h.Blocks, t.Blocks)
	}
	return h
}

// lendSide is what an engine keeps of what others may read.
type lendSide struct {
	offers int
	leases *lease.Table
	slots  *lease.Slots
}

// takeSlot writes a nonce for a request's blocks, in the step that gives it the blocks
// (LEASE-13). A request that finds no free slot goes on without: nobody will be able to verify
// a read of it (LEASE-19).
func (e *Engine) takeSlot(now int64, s *seq) {
	if s.req.Leg != PrefillLeg || e.cfg.Slots == 0 {
		return
	}
	if s.slot >= 0 {
		s.nonce = e.lend.slots.Redraw(s.slot)
	} else if slot, nonce, ok := e.lend.slots.Take(); ok {
		s.slot, s.nonce = slot, nonce
	} else {
		return
	}
	e.lend.leases.SetNonce(s.req.ID, s.nonce)
	e.emit(SetSlot{Slot: s.slot, Value: s.nonce})
	if s.send != nil {
		e.stepSend(now, s, transfer.Slotted{Slot: uint32(s.slot), Nonce: s.nonce})
	}
}

// zeroSlot says that the blocks are about to be given back (LEASE-14).
func (e *Engine) zeroSlot(s *seq) {
	if s.slot < 0 || s.nonce == 0 {
		return
	}
	s.nonce = 0
	e.lend.leases.SetNonce(s.req.ID, 0)
	e.emit(SetSlot{Slot: s.slot})
}

// freeSlot lets another request have the slot, after the blocks were given back.
func (e *Engine) freeSlot(s *seq) {
	if s.slot >= 0 {
		e.lend.slots.Free(s.slot)
		s.slot = -1
	}
}

// heartbeat renews a reader's leases.
func (e *Engine) heartbeat(now int64, from wire.Life, m *wire.Heartbeat) {
	if _, up := e.peers.up[from]; !up {
		return
	}
	ack := e.lend.leases.Renew(now, from, m)
	if ack == nil {
		return
	}
	if !ack.Resync {
		e.emit(Noted{What: LeasesRenewed})
	}
	e.emit(transfer.Notify{Peer: from, Msg: ack})
}

// completed ends a reader's lease (LEASE-02), if it is one (LEASE-16).
func (e *Engine) completed(now int64, from wire.Life, m *wire.Complete) {
	s := e.byID[m.Lease.Request]
	if err := e.lend.leases.Complete(from, m); err != nil || s == nil || !s.lends() {
		e.emit(Noted{What: CompleteIgnored, Request: m.Lease.Request})
		return
	}
	e.stepLend(now, s, transfer.Completed{Status: m.Status, Reason: m.Reason})
}

// forget ends a lease that nobody will take, as the router says (case 06).
func (e *Engine) forget(now int64, ev Forget) {
	s := e.byID[ev.Request]
	if s != nil && s.offer != nil && s.nonce == ev.Nonce {
		e.stepOffer(now, s, transfer.Completed{Status: wire.StatusCancelled, Reason: "given up by the router"})
	}
}

// expireLeases reclaims what nobody renewed (LEASE-04).
func (e *Engine) expireLeases(now int64) {
	for _, id := range e.lend.leases.Expire(now) {
		s := e.byID[id]
		if s == nil || !s.lends() {
			continue // it has ended in the same step
		}
		e.emit(Noted{What: LeaseExpired, Request: id, Blocks: s.blocks()})
		e.stepLend(now, s, transfer.Expired{})
	}
}

// blocks is how many blocks a request holds.
func (s *seq) blocks() (n int) {
	if s.hold != nil {
		for _, t := range s.hold.Tables {
			n += len(t.Blocks)
		}
	}
	return n
}
