package engine

import (
	"errors"
	"fmt"

	"kvferry/lease"
	"kvferry/transfer"
	"kvferry/wire"
)

// pullSide is what an engine keeps of what it reads from others.
type pullSide struct {
	open   int
	renew  *lease.Renewals
	claims map[claimKey]*seq
	checks slotChecks
	// tell are messages for engines that are not connected yet, by address, with the life that
	// they are for.
	tell map[string][]pending
	// retry is when an address is tried again, in order of the first failure.
	retry []retryAt
}

type claimKey struct {
	peer  wire.Life
	lease wire.Lease
}

type pending struct {
	life wire.Life
	msg  wire.Message
}

type retryAt struct {
	addr string
	at   int64
}

func newPullSide() pullSide {
	return pullSide{
		renew: lease.NewRenewals(), claims: map[claimKey]*seq{}, tell: map[string][]pending{},
		checks: slotChecks{rows: map[checkKey]*checkRow{}, out: map[uint64]*checkRow{}},
	}
}

const (
	// retryEvery is how long after a failed connection the next one is tried, for requests that
	// wait in the queue (LEASE-09).
	retryEvery = int64(1e9)
	// maxPending bounds the messages that wait for one address.
	maxPending = 1024
)

// expectPull finds out, when a request comes with a handle, what the handle can bring.
func (e *Engine) expectPull(now int64, s *seq) {
	h := s.req.Pull
	s.lease = wire.Lease{Request: h.Request, Nonce: h.Nonce, Attempt: s.req.Attempt}
	s.holder = h.Life
	n, err := e.usable(h, s.req.Tokens)
	if err != nil {
		e.loadFailed(now, s, err)
		return
	}
	s.arriving = n
	e.reach(now, s)
}

// addr is where a request's holder or sender listens.
func (s *seq) addr() string {
	if s.req.Pull != nil {
		return s.req.Pull.Addr
	}
	return s.req.Peer
}

// reach has the handshake made with a request's holder while it queues, and claims its lease as
// soon as that is up (LEASE-05, LEASE-09).
func (e *Engine) reach(now int64, s *seq) {
	if life, up := e.holderOf(s); up {
		e.reached(now, s, life)
		return
	}
	e.connect(s.addr())
}

// holderOf is the life that a request waits for, if it is connected.
func (e *Engine) holderOf(s *seq) (wire.Life, bool) {
	if s.req.Pull != nil {
		if _, up := e.peers.up[s.req.Pull.Life]; up {
			return s.req.Pull.Life, true
		}
	}
	life, up := e.peers.addrs[s.addr()]
	return life, up
}

// reached goes on with a queued request whose holder is connected.
func (e *Engine) reached(now int64, s *seq, life wire.Life) {
	switch {
	case s.req.Pull != nil && life != s.req.Pull.Life:
		e.loadFailed(now, s, ErrEarlierLife)
	case s.req.Pull != nil && s.req.Pull.Turn:
		// A turn is not renewed.
	default:
		s.holder = life
		e.claim(now, s)
	}
}

// claim adds a request's lease to the set that is renewed.
func (e *Engine) claim(now int64, s *seq) {
	if s.claimed || s.local {
		return
	}
	if s.lease.Request == "" {
		s.lease = wire.Lease{Request: s.req.ID, Attempt: s.req.Attempt} // of what will be written to us
	}
	s.claimed = true
	e.pull.claims[claimKey{s.holder, s.lease}] = s
	e.pull.renew.Join(now, s.holder, s.lease)
}

// unclaim takes it out again (LEASE-08).
func (e *Engine) unclaim(now int64, s *seq) {
	if !s.claimed {
		return
	}
	s.claimed = false
	delete(e.pull.claims, claimKey{s.holder, s.lease})
	e.pull.renew.Leave(now, s.holder, s.lease)
}

// acked takes a granter's answer to a heartbeat. A claim that it does not honour cannot be
// read.
func (e *Engine) acked(now int64, from wire.Life, m *wire.HeartbeatAck) {
	e.pull.renew.Acked(now, from, m)
	for _, r := range m.Refused {
		key := claimKey{from, r.Lease}
		s := e.pull.claims[key]
		if s == nil {
			continue
		}
		s.claimed = false
		delete(e.pull.claims, key)
		switch {
		case s.req.Pull == nil: // the answer to its registration says more
		case s.pull != nil:
			e.stepPull(now, s, transfer.LeaseRefused{Reason: r.Reason})
		default:
			e.loadFailed(now, s, fmt.Errorf("%w: %s", transfer.ErrLeaseRefused, r.Reason))
		}
	}
}

// loadFailed ends the attempt to get a prompt's KV from elsewhere before anything was read:
// kv_load_failure_policy says what follows (LEASE-17). What a turn cannot bring is always
// computed.
func (e *Engine) loadFailed(now int64, s *seq, err error) {
	e.dismiss(now, s, wire.StatusFailed, err.Error())
	if e.recomputes(s) {
		e.missed(s, err)
		e.computeHere(s)
		return
	}
	e.missed(s, err)
	err = &transfer.Error{Request: s.req.ID, Peer: s.holder, Cause: err}
	if s.lends() {
		e.stepLend(now, s, transfer.Cancel{Cause: err})
		return
	}
	e.end(s, "", err)
}

// recomputes says whether a prompt that cannot be had is computed here.
func (e *Engine) recomputes(s *seq) bool {
	return e.cfg.Recompute || s.req.Leg == PrefillLeg
}

func (e *Engine) missed(s *seq, err error) {
	if s.req.Pull != nil && s.req.Pull.Turn {
		e.emit(Noted{What: TurnMissed, Request: s.req.ID, Reason: loadReason(err)})
		return
	}
	e.emit(Noted{What: LoadFailed, Request: s.req.ID, Reason: loadReason(err)})
}

// computeHere lets a request go on as if its prompt had never been elsewhere.
func (e *Engine) computeHere(s *seq) {
	s.local = true
	s.arriving = 0
	if s.state == receiving {
		e.giveBack(s)
		e.running = without(e.running, s)
		e.requeue(s)
	}
}

// dismiss tells the holder, once, that its KV is not wanted from us (LEASE-21). A pull that has
// reached it does so itself, and one that would have written to us hears of it if we claimed.
func (e *Engine) dismiss(now int64, s *seq, status wire.Status, why string) {
	claimed := s.claimed
	e.unclaim(now, s)
	h := s.req.Pull
	reached := s.pull != nil && s.pull.Peer() != (wire.Life{})
	switch {
	case reached || s.dismissed:
		return
	case h == nil && claimed:
		e.emit(transfer.Notify{Peer: s.holder, Msg: &wire.Complete{Lease: s.lease, Status: status, Reason: why}})
		return
	case h == nil || h.Turn:
		return
	}
	s.dismissed = true
	m := &wire.Complete{Lease: s.lease, Status: status, Reason: why}
	if _, up := e.peers.up[h.Life]; up {
		e.emit(transfer.Notify{Peer: h.Life, Msg: m})
	} else if _, replaced := e.peers.addrs[h.Addr]; replaced {
		return // another process answers there
	} else if list := e.pull.tell[h.Addr]; len(list) < maxPending {
		e.pull.tell[h.Addr] = append(list, pending{h.Life, m})
		e.connect(h.Addr)
	}
}

// told sends what waited for an address that is connected now.
func (e *Engine) told(addr string, life wire.Life) {
	for _, p := range e.pull.tell[addr] {
		if p.life == life {
			e.emit(transfer.Notify{Peer: life, Msg: p.msg})
		}
	}
	delete(e.pull.tell, addr)
}

// openPull begins to read, for a request that has its blocks.
func (e *Engine) openPull(now int64, s *seq) {
	task, epoch := e.recv.add(s)
	s.task, s.epoch = task, epoch
	e.pull.open++
	cfg := transfer.PullConfig{
		Request: s.req.ID, Layout: e.cfg.Layout, Tokens: s.arriving, DstStart: s.hold.Cached, Tables: s.tables(),
		Task: uint32(task), Epoch: epoch, PromptLen: len(s.req.Tokens), TokenHash: wire.TokenHash(s.req.Tokens),
		Lease: s.lease, Verify: e.cfg.VerifyLeases, Recompute: e.recomputes(s), Timeout: e.cfg.Timeout,
	}
	if h := s.req.Pull; h != nil {
		cfg.Silent = h.Turn
		cfg.Source = &transfer.Source{Blocks: h.Blocks, End: e.cfg.Layout.TotalBlocks(h.Tokens), Slot: h.Slot, Nonce: h.Nonce}
	} else {
		cfg.Tokens = len(s.req.Tokens)
		cfg.Lease = wire.Lease{Request: s.req.ID, Attempt: s.req.Attempt}
	}
	s.pull = transfer.NewPull(cfg, now)
	e.watched("pull", s.req.ID, "", nil, s.pull.Phase())
	e.timers.set(s)
	if life, up := e.holderOf(s); up {
		e.pullReady(now, s, life)
	} else {
		e.connect(s.addr())
	}
}

// pullReady gives a pull its peer.
func (e *Engine) pullReady(now int64, s *seq, life wire.Life) {
	if s.req.Pull != nil && life != s.req.Pull.Life {
		e.stepPull(now, s, transfer.Unreachable{Err: ErrEarlierLife})
		return
	}
	if s.req.Pull != nil && s.req.Pull.Turn {
		stands, known := e.turnStands(now, s)
		if !known {
			return // the clock's answer goes on from here
		}
		if !stands {
			e.stepPull(now, s, transfer.Unreachable{Err: ErrTurnOver})
			return
		}
	}
	if s.req.Pull == nil || !s.req.Pull.Turn {
		// It may have been admitted before anybody answered, and what is announced is read under a
		// lease too (LEASE-05, LEASE-25).
		s.holder = life
		e.claim(now, s)
	}
	p := e.peers.up[life]
	ranks, err := transfer.NewMapping(e.cfg.Layout, p.Parallel, e.cfg.Parallel)
	if err != nil {
		e.stepPull(now, s, transfer.Unreachable{Err: err})
		return
	}
	e.stepPull(now, s, transfer.PullReady{Peer: life, PoolBlocks: p.PoolBlocks, Slots: p.Slots, Ranks: ranks})
}

func (e *Engine) stepPull(now int64, s *seq, ev transfer.PullEvent) {
	from := s.pull.Phase()
	s.pull.Step(now, ev)
	e.watched("pull", s.req.ID, from, ev, s.pull.Phase())
	e.pullOutputs(now, s)
	e.timers.set(s)
}

func (e *Engine) pullOutputs(now int64, s *seq) {
	for _, o := range s.pull.Outputs() {
		switch o := o.(type) {
		case transfer.Read:
			e.copyID++
			e.copies[e.copyID] = copyRef{seq: s, slice: o.Slice, writer: o.Writer, read: true}
			e.emit(Read{ID: e.copyID, Read: o})
		case transfer.CheckSlot:
			e.pull.checks.add(o, s)
		case transfer.Pulled:
			e.pulled(now, s, o)
		case transfer.Unusable:
			e.closePull(now, s)
			e.missed(s, o.Err)
			e.computeHere(s)
			return
		case transfer.Failed:
			e.missed(s, o.Err)
			e.unclaim(now, s)
			if s.lends() {
				e.stepLend(now, s, transfer.Cancel{Cause: o.Err})
			} else {
				e.finish(s, "", o.Err)
				e.leave(s)
			}
		case transfer.Release:
			e.closePull(now, s)
			if !s.lends() || s.letGo {
				e.release(s)
			}
			return
		case transfer.Record:
			e.emit(Record{Request: s.req.ID, Record: o})
		case transfer.Notify, transfer.Drop:
			e.emit(o)
		default:
			panic(fmt.Sprintf("engine: a pull gave %T", o))
		}
	}
}

// closePull forgets the session of a pull that has ended.
func (e *Engine) closePull(now int64, s *seq) {
	e.unclaim(now, s)
	e.recv.remove(s, s.epoch)
	e.pull.open--
	s.pull, s.dismissed = nil, true
}

// pulled goes on behind what was read and proved. What is left of the prompt is computed here,
// one token at least, unless the aux came with it.
func (e *Engine) pulled(now int64, s *seq, o transfer.Pulled) {
	e.closePull(now, s)
	s.stats, s.local = o.Stats, true
	e.pools.Commit(s.hold, s.req.Tokens[:s.pulledTo()])
	switch {
	case o.Aux != nil:
		s.state, s.done, s.cached = decoding, len(s.fill), int(o.Aux.Cached)
		e.draw(s, Sampled{TokenLogprob: o.Aux.First, Top: o.Aux.Top})
		return
	case s.req.Pull.Turn:
		s.cached = s.arriving
		e.emit(Noted{What: TurnPulled, Request: s.req.ID})
	default:
		s.cached = min(s.req.Pull.Cached, s.arriving)
	}
	s.state, s.done, s.base = prefilling, s.arriving, s.arriving
}

// pulledTo is how many of the prompt's tokens a pull brings.
func (s *seq) pulledTo() int {
	if s.req.Pull == nil {
		return len(s.req.Tokens)
	}
	return s.arriving
}

// Two of the words for why a load failed, which say that a turn was of no use.
const (
	ReasonOtherPrompt = "other prompt"
	ReasonExpired     = "expired"
)

// loadReason is a word for why a load failed, as a metric's label.
func loadReason(err error) string {
	var v *transfer.VerifyError
	switch {
	case errors.As(err, &v):
		return v.Reason
	case errors.Is(err, ErrEarlierLife):
		return "earlier life"
	case errors.Is(err, ErrOtherPrompt):
		return ReasonOtherPrompt
	case errors.Is(err, ErrNoHashes):
		return "fields missing"
	case errors.Is(err, ErrTurnOver):
		return ReasonExpired
	case errors.Is(err, transfer.ErrLeaseRefused):
		return "refused"
	case errors.Is(err, transfer.ErrPeerLost):
		return "peer lost"
	case errors.Is(err, transfer.ErrTimeout):
		return "timeout"
	case errors.Is(err, transfer.ErrHandle):
		return "bad handle"
	case errors.Is(err, transfer.ErrCancelled):
		return "cancelled"
	}
	return "other"
}

// retryLater tries an address again in a while, if requests in the queue still wait for it.
func (e *Engine) retryLater(now int64, addr string) {
	for _, r := range e.pull.retry {
		if r.addr == addr {
			return
		}
	}
	e.pull.retry = append(e.pull.retry, retryAt{addr, now + retryEvery})
}

func (p *pullSide) retryDeadline() int64 {
	if len(p.retry) == 0 {
		return transfer.Never
	}
	return p.retry[0].at
}

func (e *Engine) retryConnects(now int64) {
	for len(e.pull.retry) > 0 && e.pull.retry[0].at <= now {
		addr := e.pull.retry[0].addr
		e.pull.retry = e.pull.retry[1:]
		for _, s := range e.queue {
			if s.waitsFor(addr) {
				e.connect(addr)
				break
			}
		}
	}
}

// waitsFor says whether a request in the queue wants a connection with the engine at addr.
func (s *seq) waitsFor(addr string) bool {
	return s.addr() == addr && addr != "" && !s.local && len(s.output) == 0
}

// beat sends the heartbeats that are due. An engine whose pass has been out for so long that it
// must be stuck stops renewing what it may never read (LEASE-24).
func (e *Engine) beat(now int64) {
	if e.stuck(now) {
		return
	}
	for _, b := range e.pull.renew.Due(now) {
		e.emit(transfer.Notify{Peer: b.Peer, Msg: b.Msg})
	}
}

func (e *Engine) stuck(now int64) bool { return e.pass != nil && now-e.passAt >= e.cfg.Timeout }

// beatDeadline is when the next heartbeat is due, or Never once the pass will be taken for stuck
// by then.
func (e *Engine) beatDeadline() int64 {
	at := e.pull.renew.Deadline()
	if e.pass != nil && at-e.passAt >= e.cfg.Timeout {
		return transfer.Never
	}
	return at
}
