package engine

import (
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// schedule admits what fits and sends out a pass if none is out. Requests are served in order
// of arrival.
func (e *Engine) schedule(now int64) {
	e.admit(now)
	e.readSlots()
	if e.pass != nil {
		return
	}
	batch := e.prefillWork(now, e.decodeWork(now))
	if len(batch) > 0 {
		e.passAt = now
		e.passes++
		e.emit(Compute{Pass: e.passes, Batch: batch})
	}
}

// admit gives blocks and a compute slot to the head of the queue for as long as there are any.
func (e *Engine) admit(now int64) {
	for len(e.queue) > 0 && len(e.running) < e.cfg.MaxSeqs {
		s := e.queue[0]
		if !e.take(s) {
			if s = e.makeRoom(now); s == nil {
				return
			}
		}
		e.queue = without(e.queue, s)
		e.running = append(e.running, s)
		s.done, s.base = s.hold.Cached, s.hold.Cached
		e.takeSlot(now, s)
		if !s.started && len(s.output) == 0 {
			s.cached = s.hold.Cached
		}
		e.begin(now, s)
	}
}

// begin lets an admitted request go on: with a transfer, or with computing.
func (e *Engine) begin(now int64, s *seq) {
	e.endTurnOf(s)
	switch n := s.arrives(); {
	case n == 0:
		if s.req.Pull != nil && !s.local {
			e.dismiss(now, s, wire.StatusCancelled, "the prompt is computed by the reader")
			s.local = true
		}
		s.state = prefilling
	case s.req.Pull != nil && s.hold.Cached >= n:
		// All that could be read is here already: the holder is told, and that is all (LEASE-21).
		e.dismiss(now, s, wire.StatusOK, "")
		s.local, s.state = true, prefilling
	case s.req.Pull != nil || e.cfg.ReadOnly:
		s.state = receiving
		e.openPull(now, s)
	default:
		s.state = receiving
		e.openReceive(now, s)
	}
}

// take gives a request its first blocks, if the pools have them. Turns that are only kept give
// way.
func (e *Engine) take(s *seq) bool {
	for {
		if e.tryTake(s) {
			return true
		}
		if !e.dropTurn() {
			return false
		}
	}
}

// tryTake admits a request. What would take longer to read than to compute is not read
// (kv_recompute_threshold).
func (e *Engine) tryTake(s *seq) (ok bool) {
	s.hold, ok = e.pools.Admit(s.demand(), s.fill)
	if !ok || s.req.Pull == nil {
		return ok
	}
	if n := s.arrives() - s.hold.Cached; n > 0 && n < e.cfg.RecomputeThreshold {
		e.pools.Give(s.hold)
		s.hold, s.arriving = nil, 0
		s.hold, ok = e.pools.Admit(s.demand(), s.fill)
	}
	return ok
}

// decodeWork is one token of each request that decodes: the last one drawn, at its position.
func (e *Engine) decodeWork(now int64) []Work {
	var batch []Work
	for _, s := range slices.Clone(e.running) {
		at := len(s.req.Tokens) + len(s.output) - 1
		if s.state != decoding || !e.extend(now, s, at, at+1) {
			continue
		}
		e.join(part{seq: s, decode: true, sample: true})
		batch = append(batch, Work{
			Request: s.req.ID, Tokens: s.output[len(s.output)-1:], Start: at,
			Tables: s.tables(), Copies: s.hold.Copies, Sample: s.sampleAt(at + 1),
		})
	}
	return batch
}

// prefillWork cuts the next chunks. The budget goes to the oldest prompts first; a prompt
// that is not cut goes whole into a pass with no other that would pass the budget.
func (e *Engine) prefillWork(now int64, batch []Work) []Work {
	budget, any := e.cfg.ChunkTokens, false
	for _, s := range slices.Clone(e.running) {
		if s.state != prefilling {
			continue
		}
		n := len(s.fill) - s.done
		if e.cfg.Chunked {
			n = min(n, budget)
		}
		if n == 0 || (any && n > budget) {
			break
		}
		c := s.chunk(n)
		if !e.extend(now, s, c.Start, c.End) {
			continue
		}
		any = true
		budget -= n
		batch = append(batch, e.chunkWork(now, s, c))
	}
	return batch
}

// chunkWork puts a chunk into the pass. After a preemption the last chunk draws no token: the
// next one is known.
func (e *Engine) chunkWork(now int64, s *seq, c kvcache.Chunk) Work {
	if !s.started {
		s.started, s.began = true, now
	}
	w := Work{
		Request: s.req.ID, Tokens: s.fill[c.Start:c.End], Start: c.Start,
		Tables: s.tables(), Copies: s.hold.Copies,
	}
	if c.Last && len(s.output) == 0 {
		w.Sample = s.sampleAt(c.End)
	}
	e.join(part{seq: s, chunk: c, sample: w.Sample != nil})
	if s.lends() {
		e.stepLend(now, s, transfer.ChunkStarted{Chunk: c, Tables: w.Tables})
	}
	w.Layers = s.send != nil && s.send.Parts()
	return w
}

func (e *Engine) join(p part) {
	p.seq.inPass = true
	e.pass = append(e.pass, p)
}

func (s *seq) sampleAt(position int) *SampleSpec {
	return &SampleSpec{Sampling: s.req.Sampling, Position: position, Logprobs: s.req.Logprobs}
}

// layersComputed takes to its session what of the pass that is out can leave before it ends.
func (e *Engine) layersComputed(now int64, ev LayersComputed) {
	if ev.Pass != e.passes || len(ev.Through) != len(e.pass) {
		return // that pass has ended
	}
	for i, through := range ev.Through {
		if s := e.pass[i].seq; through > 0 && s.send != nil {
			e.stepSend(now, s, transfer.LayersComputed{Through: through})
		}
	}
}

// computed takes a pass's results to its requests.
func (e *Engine) computed(now int64, ev Computed) {
	parts := e.pass
	e.pass = nil
	next := 0
	for _, p := range parts {
		var drawn *Sampled
		if p.sample && ev.Err == nil {
			drawn = &ev.Results[next]
			next++
		}
		p.seq.inPass = false
		e.pools.Copied(p.seq.hold)
		if !p.decode && p.chunk.Last && p.seq.prefill == 0 {
			p.seq.prefill = now - p.seq.began
		}
		switch {
		case p.seq.lends():
			e.chunkSent(now, p, drawn, ev.Err)
		case p.seq.finished:
			e.release(p.seq) // it was aborted while the pass was out
		case ev.Err != nil:
			e.end(p.seq, "", ev.Err)
		default:
			e.advance(p, drawn)
		}
	}
}

// advance moves a request on that is served here.
func (e *Engine) advance(p part, drawn *Sampled) {
	s := p.seq
	if !p.decode {
		s.done = p.chunk.End
		if !p.chunk.Last {
			return
		}
		s.state = decoding
		e.pools.Commit(s.hold, s.fill)
	}
	if drawn != nil {
		e.draw(s, *drawn)
	}
}

// draw adds a token to an answer and ends it where it ends.
func (e *Engine) draw(s *seq, t Sampled) {
	s.output = append(s.output, t.Token)
	atEnd := s.isEnd(e.cfg.Ends, t.Token)
	var text []byte
	stopped := false
	if !atEnd {
		text, stopped = s.stop.push(e.cfg.Text(t.Token))
	}
	e.emit(Token{Request: s.req.ID, Sampled: t, Text: text})
	switch {
	case atEnd || stopped:
		e.end(s, FinishStop, nil)
	case len(s.output) >= s.req.MaxTokens:
		e.end(s, FinishLength, nil)
	}
}
