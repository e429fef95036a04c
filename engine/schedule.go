package engine

import "kvferry/transfer"

// schedule admits what fits and sends out a pass if none is out. Requests are served in order
// of arrival.
func (e *Engine) schedule(now int64) {
	e.admit(now)
	if e.pass != nil {
		return
	}
	var batch []Work
	for _, s := range e.running {
		if s.state == decoding {
			batch = append(batch, e.decodeWork(s))
		}
	}
	batch = e.prefillWork(now, batch)
	if len(batch) > 0 {
		e.emit(Compute{Batch: batch})
	}
}

// admit gives blocks and a compute slot to the head of the queue for as long as there are any.
func (e *Engine) admit(now int64) {
	for len(e.queue) > 0 && len(e.running) < e.cfg.MaxSeqs {
		s := e.queue[0]
		tables, ok := e.pools.Take(s.demand())
		if !ok {
			return
		}
		e.queue = e.queue[1:]
		s.tables = tables
		e.running = append(e.running, s)
		if s.req.Leg == DecodeLeg {
			s.state = receiving
			e.openReceive(now, s)
		} else {
			s.state = prefilling
		}
	}
}

// decodeWork is one token of a request: the last one drawn, at its position.
func (e *Engine) decodeWork(s *seq) Work {
	e.passes(part{seq: s, decode: true, sample: true})
	at := len(s.req.Tokens) + len(s.output) - 1
	return Work{
		Request: s.req.ID, Tokens: s.output[len(s.output)-1:], Start: at,
		Tables: s.tables, Sample: s.sampleAt(at + 1),
	}
}

// prefillWork cuts the next chunks. The budget goes to the oldest prompts first; a prompt
// that is not cut goes whole into a pass with no other that would pass the budget.
func (e *Engine) prefillWork(now int64, batch []Work) []Work {
	budget, any := e.cfg.ChunkTokens, false
	for _, s := range e.running {
		if s.state != prefilling {
			continue
		}
		n := len(s.req.Tokens) - s.done
		if e.cfg.Chunked {
			n = min(n, budget)
		}
		if n == 0 || (any && n > budget) {
			break
		}
		any = true
		budget -= n
		c := s.chunk(n)
		if c.First {
			s.began = now
		}
		w := Work{Request: s.req.ID, Tokens: s.req.Tokens[c.Start:c.End], Start: c.Start, Tables: s.tables}
		if c.Last {
			w.Sample = s.sampleAt(c.End)
		}
		e.passes(part{seq: s, chunk: c, sample: c.Last})
		if s.send != nil {
			e.stepSend(now, s, transfer.ChunkStarted{})
		}
		batch = append(batch, w)
	}
	return batch
}

func (e *Engine) passes(p part) {
	p.seq.inPass = true
	e.pass = append(e.pass, p)
}

func (s *seq) sampleAt(position int) *SampleSpec {
	return &SampleSpec{Sampling: s.req.Sampling, Position: position, Logprobs: s.req.Logprobs}
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
		if !p.decode && p.chunk.Last {
			p.seq.prefill = now - p.seq.began
		}
		switch {
		case p.seq.send != nil:
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
	}
	e.draw(s, *drawn)
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
