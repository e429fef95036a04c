package engine

import (
	"cmp"
	"errors"
	"slices"

	"kvferry/transfer"
)

// extend finds the blocks that a request needs to compute the tokens [start,end). Where the
// pools are short, finished prefills that nobody registered for go first, then the youngest
// request that runs and is younger than this one. If nobody can give way it is false: the
// request keeps what it has and waits for a pass to come, for the oldest always gets its blocks.
func (e *Engine) extend(now int64, s *seq, start, end int) bool {
	for !e.pools.Extend(s.hold, start, end) {
		if e.dropTurn() {
			continue
		}
		if v := e.idlePrefill(); v != nil {
			e.evict(now, v)
			continue
		}
		v := e.youngest()
		switch {
		case v != nil && v.number > s.number:
			e.preempt(now, v)
		case !e.dropReader(now, s):
			return false
		}
	}
	return true
}

// errRoom ends a prefill whose announced blocks an older request needs.
var errRoom = errors.New("an older request needs the blocks")

// dropReader fails the youngest prefill whose blocks are announced, for the sake of the oldest
// request that runs, if nothing else is going to give blocks back. What is announced stays until
// its reader has all of it, so nothing less would end a wait of the two for each other (LEASE-25).
func (e *Engine) dropReader(now int64, s *seq) bool {
	var v *seq
	for _, x := range e.running {
		switch {
		case x.number < s.number:
			return false
		case x.reads && x.state == prefilling && !x.inPass && x != s && (v == nil || x.number > v.number):
			v = x
		}
	}
	for _, x := range e.byID {
		if v == nil || x.hold != nil && (x.state == computed || x.state == ended) {
			return false
		}
	}
	if v == nil {
		return false
	}
	e.stepSend(now, v, transfer.Cancel{Cause: errRoom})
	return true
}

// youngest is the youngest running request whose blocks nothing uses.
func (e *Engine) youngest() *seq {
	var out *seq
	for _, s := range e.running {
		free := !s.inPass && (s.state == prefilling || s.state == decoding) && !s.lent()
		if free && (out == nil || s.number > out.number) {
			out = s
		}
	}
	return out
}

// preempt takes a running request's blocks and compute slot. It goes back to its place in the
// queue; what it computed stays in the prefix index for as long as nobody needs the room.
func (e *Engine) preempt(now int64, s *seq) {
	if s.state == decoding {
		e.pools.Commit(s.hold, s.stored())
	} else {
		e.pools.Commit(s.hold, s.fill[:s.done]) // it may have drawn tokens before, whose KV is not here again
	}
	s.fill = s.req.Tokens
	if len(s.output) > 0 {
		s.fill = s.stored()
	}
	e.giveBack(s)
	e.running = without(e.running, s)
	if s.lends() {
		e.stepLend(now, s, transfer.TakenBack{})
	}
	e.requeue(s)
}

// requeue puts a request back into the queue, in order of arrival.
func (e *Engine) requeue(s *seq) {
	s.state, s.done = waiting, 0
	at, _ := slices.BinarySearchFunc(e.queue, s, func(a, b *seq) int { return cmp.Compare(a.number, b.number) })
	e.queue = slices.Insert(e.queue, at, s)
}

// makeRoom admits, when the head of the queue does not fit, the first request in it whose
// receiver has registered: on the other side blocks are held for it already. Finished prefills
// that nobody registered for give way to it, so full pools on both sides never wait for each
// other (PIPE-35), and to a request that is served here alone.
func (e *Engine) makeRoom(now int64) *seq {
	i := slices.IndexFunc(e.queue, func(s *seq) bool {
		if s.send == nil {
			return e.idlePrefill() != nil
		}
		return s.send.HasReceiver()
	})
	if i < 0 {
		return nil
	}
	s := e.queue[i]
	for !e.take(s) {
		v := e.idlePrefill()
		if v == nil {
			return nil
		}
		e.evict(now, v)
	}
	return s
}

// idlePrefill is the oldest finished prefill that nobody registered for.
func (e *Engine) idlePrefill() *seq {
	for len(e.send.offered) > 0 {
		s := e.send.offered[0]
		if s.state == computed && s.hold != nil && !s.send.HasReceiver() && !s.send.InFlight() {
			return s
		}
		e.send.offered = e.send.offered[1:]
	}
	return nil
}

// evict takes the blocks of a finished prefill. Should its receiver still register, it is
// computed again, from what the prefix index then still has.
func (e *Engine) evict(now int64, s *seq) {
	e.send.offered = e.send.offered[1:]
	e.giveBack(s)
	s.state, s.done = evicted, 0
	e.stepSend(now, s, transfer.TakenBack{})
}
