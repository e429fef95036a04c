package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

const (
	// maxParked bounds the registrations that wait for their request, and maxTombstones the
	// ended requests that are remembered.
	maxParked     = 4096
	maxTombstones = 8192
)

var (
	errNeverCame = errors.New("no such request came to this engine in time")
	errFull      = errors.New("too many registrations wait for their requests")
	errEnded     = errors.New("the request has ended")
	errTaken     = errors.New("another receive is registered for this request")
)

// sendSide is what an engine keeps of the transfers that go out.
type sendSide struct {
	open int
	// parked are registrations whose request is not here yet, and order when each ends to
	// wait, oldest first. What was taken meanwhile is still named there, and nothing more.
	parked map[string]parked
	order  []parkedUntil
	// ended says of a request that is no longer here why; graves is the order of burial.
	ended    map[string]error
	graves   []string
	mappings map[kvcache.Parallel]*transfer.Mapping
	// offered are finished prefills that nobody had registered for when they finished, oldest
	// first. One that is no longer so is dropped when it is met.
	offered []*seq
}

type parked struct {
	peer  wire.Life
	msg   *wire.Register
	until int64
}

type parkedUntil struct {
	request string
	until   int64
}

func newSendSide() sendSide {
	return sendSide{parked: map[string]parked{}, ended: map[string]error{}, mappings: map[kvcache.Parallel]*transfer.Mapping{}}
}

// openLend makes the session of a prefill leg.
func (e *Engine) openLend(now int64, s *seq) {
	e.lend.leases.Open(s.req.ID)
	if s.req.Hold {
		e.openOffer(now, s)
		return
	}
	e.openSend(now, s)
}

// openSend makes the session of a request that just came; a registration may be here already.
func (e *Engine) openSend(now int64, s *seq) {
	s.send = transfer.NewSend(transfer.SendConfig{
		Request: s.req.ID, Layout: e.cfg.Layout,
		PromptLen: len(s.req.Tokens), TokenHash: wire.TokenHash(s.req.Tokens),
		Pipelined: e.cfg.Pipelined, PartBytes: e.cfg.PartBytes, Timeout: e.cfg.Timeout,
	}, now)
	e.send.open++
	e.watched("send", s.req.ID, "", nil, s.send.Phase())
	e.timers.set(s)
	if p, ok := e.send.parked[s.req.ID]; ok {
		delete(e.send.parked, s.req.ID)
		e.registered(now, p.peer, p.msg)
	}
}

// registered takes a registration to its request. One that comes before its request waits,
// bounded in number and time; one that comes after its end is told so.
func (e *Engine) registered(now int64, from wire.Life, m *wire.Register) {
	p, up := e.peers.up[from]
	if !up {
		return
	}
	if s := e.byID[m.Request]; s != nil && s.send != nil {
		e.receiverCame(now, s, p, m)
		return
	}
	refuse := func(status wire.Status, err error) {
		e.emit(transfer.Notify{Peer: from, Msg: transfer.Refusal(m, status, err)})
	}
	if err, ok := e.send.ended[m.Request]; ok {
		refuse(wire.StatusGone, err)
		return
	}
	if e.cfg.Role != Prefill {
		refuse(wire.StatusRefused, ErrRole)
		return
	}
	if p, ok := e.send.parked[m.Request]; ok {
		if p.peer != from || p.msg.Epoch != m.Epoch {
			refuse(wire.StatusGone, errTaken)
		}
		return
	}
	if len(e.send.parked) >= maxParked {
		refuse(wire.StatusFailed, errFull)
		return
	}
	until := now + e.cfg.Timeout
	e.send.parked[m.Request] = parked{peer: from, msg: m, until: until}
	e.send.order = append(e.send.order, parkedUntil{m.Request, until})
}

// receiverCame registers a receiver with a request's session. A prefill that was evicted for
// want of one is computed again.
func (e *Engine) receiverCame(now int64, s *seq, p PeerUp, m *wire.Register) {
	ranks, err := e.mappingTo(p.Parallel)
	if err != nil {
		e.emit(transfer.Notify{Peer: p.Peer, Msg: transfer.Refusal(m, wire.StatusRefused, err)})
		return
	}
	had := s.send.HasReceiver()
	e.stepSend(now, s, transfer.Registered{
		Peer: p.Peer, Msg: m, PoolBlocks: p.PoolBlocks, Ranks: ranks,
		HasSlot: s.slot >= 0 || s.hold == nil, Slot: uint32(max(0, s.slot)), Nonce: s.nonce,
	})
	if !had && s.send != nil && s.send.HasReceiver() && m.Read {
		s.reads = true
		if s.state == computed {
			e.lend.leases.Grant(now, s.req.ID)
		}
	}
	if s.send == nil {
		return
	}
	if s.state == evicted && s.send.HasReceiver() {
		e.requeue(s)
	}
}

// mappingTo is how our ranks map onto a receiver's, made once for each geometry.
func (e *Engine) mappingTo(receiver kvcache.Parallel) (*transfer.Mapping, error) {
	if m := e.send.mappings[receiver]; m != nil {
		return m, nil
	}
	m, err := transfer.NewMapping(e.cfg.Layout, e.cfg.Parallel, receiver)
	if err == nil {
		e.send.mappings[receiver] = m
	}
	return m, err
}

// withdrawn takes a withdrawal to its request, or to the registration that waits for one.
func (e *Engine) withdrawn(now int64, from wire.Life, m *wire.Withdraw) {
	s := e.byID[m.Request]
	switch {
	case s == nil || s.send == nil:
	case s.send.IsReceiver(from, m.Epoch):
		e.stepSend(now, s, transfer.Withdrawn{Peer: from, Msg: m})
		return
	case !s.send.HasReceiver():
		// Its registration was lost on the way; nobody will come for the request.
		e.stepSend(now, s, transfer.Cancel{Cause: fmt.Errorf("%w: %s", transfer.ErrWithdrawn, m.Reason)})
	}
	if p, ok := e.send.parked[m.Request]; ok && p.peer == from && p.msg.Epoch == m.Epoch {
		delete(e.send.parked, m.Request)
		// Its request may still come, and must not wait for a receiver that has left.
		err := fmt.Errorf("%w: %s", transfer.ErrWithdrawn, m.Reason)
		e.bury(m.Request, err)
		e.emit(transfer.Notify{Peer: from, Msg: transfer.Refusal(p.msg, wire.StatusCancelled, err)})
		return
	}
	// Nothing of it is in flight here. Without a fence the receiver waits to hear that.
	e.emit(transfer.Notify{Peer: from, Msg: &wire.Result{
		Request: m.Request, Task: m.Task, Epoch: m.Epoch, Last: true, Status: wire.StatusGone, Reason: errEnded.Error(),
	}})
}

// refuseParked answers a registration that waited for a request which was refused (case 10).
func (e *Engine) refuseParked(id string, err error) {
	if p, ok := e.send.parked[id]; ok {
		delete(e.send.parked, id)
		e.emit(transfer.Notify{Peer: p.peer, Msg: transfer.Refusal(p.msg, wire.StatusFailed, err)})
	}
}

// unpark forgets the registrations of a peer that is gone.
func (e *Engine) unpark(gone wire.Life) {
	for id, p := range e.send.parked {
		if p.peer == gone {
			delete(e.send.parked, id)
		}
	}
}

func (s *sendSide) parkedDeadline() int64 {
	if len(s.order) == 0 {
		return transfer.Never
	}
	return s.order[0].until
}

// expireParked refuses the registrations whose request did not come.
func (e *Engine) expireParked(now int64) {
	for len(e.send.order) > 0 && e.send.order[0].until <= now {
		request := e.send.order[0].request
		e.send.order = e.send.order[1:]
		p, ok := e.send.parked[request]
		if !ok || p.until > now {
			continue // its request came, or it left
		}
		delete(e.send.parked, request)
		e.emit(transfer.Notify{Peer: p.peer, Msg: transfer.Refusal(p.msg, wire.StatusGone, errNeverCame)})
	}
}

// bury remembers why a request ended, for a registration that comes late.
func (e *Engine) bury(id string, err error) {
	if err == nil {
		err = errEnded
	}
	if _, ok := e.send.ended[id]; !ok {
		e.send.graves = append(e.send.graves, id)
	}
	e.send.ended[id] = err
	if len(e.send.graves) > maxTombstones {
		delete(e.send.ended, e.send.graves[0])
		e.send.graves = e.send.graves[1:]
	}
}

// chunkSent takes a computed chunk to the session. With the last one the compute slot is
// given back, while the blocks stay (PIPE-07).
func (e *Engine) chunkSent(now int64, p part, drawn *Sampled, err error) {
	s := p.seq
	s.done = p.chunk.End
	ev := transfer.ChunkComputed{Chunk: p.chunk, Tables: s.tables(), Err: err}
	if drawn != nil {
		ev.Aux = &wire.Aux{First: drawn.TokenLogprob, Top: drawn.Top, Cached: uint32(s.cached)}
	}
	if p.chunk.Last && err == nil && s.state == prefilling {
		e.running = without(e.running, s)
		s.state = computed
		if s.reads {
			e.lend.leases.Grant(now, s.req.ID)
		}
		if s.send != nil && !s.send.HasReceiver() {
			e.idlePrefill() // drops those in front that are none any more
			e.send.offered = append(e.send.offered, s)
		}
	}
	e.stepLend(now, s, ev)
}

func (e *Engine) stepSend(now int64, s *seq, ev transfer.SendEvent) {
	from := s.send.Phase()
	s.send.Step(now, ev)
	e.watched("send", s.req.ID, from, ev, s.send.Phase())
	e.sendOutputs(now, s)
	e.timers.set(s)
}

func (e *Engine) sendOutputs(now int64, s *seq) {
	for _, o := range s.send.Outputs() {
		switch o := o.(type) {
		case transfer.Copy:
			e.copyID++
			e.copies[e.copyID] = copyRef{seq: s, slice: o.Slice, writer: o.Writer}
			e.emit(Copy{ID: e.copyID, Copy: o})
		case transfer.Sent:
			s.stats = o.Stats
			e.finish(s, "", nil)
		case transfer.Failed:
			e.finish(s, "", o.Err)
			e.leave(s)
		case transfer.Release:
			e.send.open--
			e.bury(s.req.ID, s.send.Err())
			e.lend.leases.End(s.req.ID, s.send.Err())
			e.release(s)
		case transfer.Record:
			e.emit(Record{Request: s.req.ID, Record: o})
		case transfer.Commit:
			e.pools.Commit(s.hold, s.req.Tokens)
		case transfer.Notify, transfer.Drop:
			e.emit(o)
		default:
			panic(fmt.Sprintf("engine: a send session gave %T", o))
		}
	}
}

// sendsInOrder is every open send session, oldest first.
func (e *Engine) sendsInOrder() []*seq {
	var out []*seq
	for _, s := range e.byID {
		if s.send != nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *seq) int { return cmp.Compare(a.number, b.number) })
	return out
}
