package engine

import (
	"slices"

	"kvferry/kvcache"
	"kvferry/lease"
	"kvferry/transfer"
	"kvferry/wire"
)

// turn is a finished answer whose KV is kept for the conversation's next turn (LEASE-20). It
// holds blocks that nothing else needs: whoever does takes them.
type turn struct {
	slot  int
	nonce uint64
	hold  *kvcache.Holding
	until int64
}

// turns are kept in the order in which they ended, which is that of their expiry too.
type turns struct {
	list    []*turn
	byNonce map[uint64]*turn
	clocks  map[wire.Life]*lease.Offset
}

// keepTurn keeps the KV of an answer that ended well, and says how to read it. The last token
// that was drawn has no KV.
func (e *Engine) keepTurn(s *seq) *Handle {
	if e.cfg.TurnTTL <= 0 || e.cfg.Role != Decode || s.req.Pull == nil || s.state != decoding || s.inPass {
		return nil
	}
	stored := s.stored()
	chain := kvcache.Chain(e.cfg.Salt, e.cfg.Layout.BlockTokens, stored)
	slot, nonce, ok := e.lend.slots.Take()
	if !ok {
		return nil
	}
	e.pools.Trim(s.hold, len(stored))
	t := &turn{slot: slot, nonce: nonce, hold: s.hold, until: e.now + e.cfg.TurnTTL}
	s.hold = nil
	e.turns.list = append(e.turns.list, t)
	e.turns.byNonce[nonce] = t
	e.emit(SetSlot{Slot: slot, Value: nonce})
	h := &Handle{
		Request: s.req.ID, Tokens: len(stored), Hashes: chain, Slot: slot, Nonce: nonce, Turn: true, Expiry: t.until,
	}
	for _, table := range t.hold.Tables {
		h.Blocks = append(h.Blocks, table.Blocks)
	}
	return h
}

// dropTurn ends the turn that has been kept longest, if there is one.
func (e *Engine) dropTurn() bool {
	if len(e.turns.list) == 0 {
		return false
	}
	e.endTurn(e.turns.list[0])
	return true
}

// endTurn gives a turn's blocks back, its slot zeroed before.
func (e *Engine) endTurn(t *turn) {
	i := slices.Index(e.turns.list, t)
	e.turns.list = slices.Delete(e.turns.list, i, i+1)
	delete(e.turns.byNonce, t.nonce)
	e.emit(SetSlot{Slot: t.slot})
	e.pools.Give(t.hold)
	e.lend.slots.Free(t.slot)
}

// endTurnOf ends the turn that a request goes on from, if we keep it: the request shares its
// blocks by now, as far as it can. The nonces of other lives say nothing here.
func (e *Engine) endTurnOf(s *seq) {
	if s.req.Leg != DecodeLeg || s.req.Pull == nil || s.req.Pull.Before.Life != e.cfg.Life {
		return
	}
	if t := e.turns.byNonce[s.req.Pull.Before.Nonce]; t != nil {
		e.endTurn(t)
	}
}

func (e *Engine) expireTurns(now int64) {
	for len(e.turns.list) > 0 && e.turns.list[0].until <= now {
		e.endTurn(e.turns.list[0])
	}
}

func (t *turns) blocks() (n int) {
	for _, x := range t.list {
		for _, table := range x.hold.Tables {
			n += len(table.Blocks)
		}
	}
	return n
}

func (t *turns) deadline() int64 {
	if len(t.list) == 0 {
		return transfer.Never
	}
	return t.list[0].until
}

// askClock asks a peer for its clock.
func (e *Engine) askClock(now int64, peer wire.Life) {
	e.emit(transfer.Notify{Peer: peer, Msg: &wire.Clock{Sent: now}})
}

// clock answers a peer, or takes its answer: pulls that wait to know whether their turn still
// stands go on.
func (e *Engine) clock(now int64, from wire.Life, m *wire.Clock) {
	if _, up := e.peers.up[from]; !up {
		return
	}
	if !m.Answered {
		e.emit(transfer.Notify{Peer: from, Msg: &wire.Clock{Sent: m.Sent, Answered: true, Now: now}})
		return
	}
	known := e.turns.clocks[from]
	if known == nil {
		known = &lease.Offset{}
		e.turns.clocks[from] = known
	}
	known.Sample(m.Sent, m.Now, now)
	for _, s := range e.recv.all() {
		if s.pull != nil && s.req.Pull != nil && s.req.Pull.Turn && s.req.Pull.Life == from {
			e.pullReady(now, s, from)
		}
	}
}

// turnStands says whether a turn's blocks may still be there, or waits for the holder's clock.
func (e *Engine) turnStands(now int64, s *seq) (stands, known bool) {
	h := s.req.Pull
	offset := e.turns.clocks[h.Life]
	if offset == nil {
		e.askClock(now, h.Life)
		return false, false
	}
	return !offset.Passed(h.Expiry, now), true
}
