package engine_test

import (
	"slices"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// host is one engine with its memory.
type host struct {
	name   string
	w      *world
	side   *side
	e      *engine.Engine
	memory *memory
	life   wire.Life
	pass   []engine.Work
	number uint64 // of the pass
	layers int    // that are written of it
	begun  bool   // it has looked at what is there
	ends   map[string]*end
}

// end is what came of a request on a host.
type end struct {
	leg    engine.Leg
	tokens int
	first  int // where its first pass began, -1 before
	err    error
	over   bool
}

func (w *world) newHost(name string, role engine.Role, s *side, a *arena) *host {
	h := &host{name: name, w: w, side: s, memory: newMemory(w.c.layout, s.parallel, s.blocks, a), ends: map[string]*end{}}
	copy(h.life[:], name)
	var err error
	h.e, err = engine.New(engine.Config{
		Role: role, Layout: w.c.layout, Parallel: s.parallel, Blocks: s.blocks,
		Grow: s.grow, Reuse: s.reuse, Freed: h.memory.freed,
		MaxSeqs: s.slots, MaxWaiting: 99, Chunked: s.chunk > 0, ChunkTokens: s.chunk, Pipelined: s.pipelined, PartBytes: s.parts,
		Timeout: 1, Context: context, Text: func(int32) []byte { return nil }, Fencing: w.c.fencing, Checksum: w.c.checksum,
		Watch: w.watch,
	})
	if err != nil {
		failf("%v", err)
	}
	h.e.WrapPools(func(m kvcache.Manager) kvcache.Manager { return witness{m, h} })
	return h
}

// witness is a pools' manager that looks at what is entered in the prefix index (PIPE-36).
type witness struct {
	kvcache.Manager
	h *host
}

// Commit is of Manager. Each whole block must hold what was computed for exactly its prefix.
func (w witness) Commit(held *kvcache.Holding, tokens []int32) {
	r := newRequest("what is entered in the index", ask{tokens: tokens})
	tpb := w.h.w.c.layout.BlockTokens
	for g, t := range held.Tables {
		if w.h.w.c.layout.Groups[g].Recurrent() {
			continue
		}
		for i := t.First; i < min(t.End(), len(tokens)/tpb); i++ {
			for position := i * tpb; position < (i+1)*tpb; position++ {
				w.h.memory.check(r, g, t.Block(i), position)
			}
		}
	}
	w.Manager.Commit(held, tokens)
}

func (h *host) abort(r *request, cause error) {
	h.w.trace("%s: abort %s", h.name, r.id)
	if o := h.w.inFlight(r); o && h == h.w.d {
		h.w.saw(abortInFlight)
	}
	h.w.sawIf(stopsInParts, h == h.w.p && h.w.partUnder(r.id))
	h.step(engine.Abort{ID: r.id, Cause: cause})
}

func (h *host) submit(r *request) {
	e := &end{leg: engine.Whole, first: -1}
	h.ends[r.id] = e
	q := engine.Request{ID: r.id, Tokens: r.ask.tokens, MaxTokens: r.ask.max, IgnoreEOS: true, Logprobs: -1}
	if r.ask.on == onBoth {
		q.Leg = engine.PrefillLeg
		if h == h.w.d {
			q.Leg, q.Peer = engine.DecodeLeg, "P"
		}
		e.leg = q.Leg
	}
	h.w.trace("%s: submit %s", h.name, r.id)
	h.step(engine.Submit{Request: q})
}

// step gives the engine an event and carries out what it says.
func (h *host) step(ev engine.Event) {
	h.e.Step(0, ev)
	for outs := h.e.Outputs(); len(outs) > 0; outs = h.e.Outputs() {
		for _, o := range outs {
			h.output(o)
		}
	}
}

func (h *host) output(o engine.Output) {
	switch o := o.(type) {
	case engine.Compute:
		if h.pass != nil {
			failf("%s: a second pass goes out", h.name)
		}
		h.pass, h.number, h.layers, h.begun = o.Batch, o.Pass, 0, false
	case engine.Token:
		h.token(o)
	case engine.Finish:
		h.finish(o)
	case engine.Connect:
		h.w.asked++
	case engine.Copy:
		h.w.copyBegins(o)
	case engine.Verify:
		h.w.verifying = append(h.w.verifying, o)
	case transfer.Grant:
		h.w.granted(o)
	case transfer.Revoke:
		h.w.revoking = append(h.w.revoking, o.Epoch)
	case transfer.Notify:
		h.w.notify(h, o.Msg)
	case transfer.Drop:
		failf("%s drops its peer: %v", h.name, o.Err)
	}
}

func (h *host) token(o engine.Token) {
	e, r := h.ends[o.Request], h.w.reqs[o.Request]
	if e.over || e.leg == engine.PrefillLeg {
		failf("%s: %s gets a token after its end, or for a prefill leg", h.name, o.Request)
	}
	if want := r.all[r.prompt()+e.tokens]; o.Sampled.Token != want {
		failf("%s: token %d of %s is %d and should be %d", h.name, e.tokens, o.Request, o.Sampled.Token, want)
	}
	e.tokens++
}

func (h *host) finish(o engine.Finish) {
	h.w.trace("%s: finish %s, %v", h.name, o.Request, o.Err)
	e, r := h.ends[o.Request], h.w.reqs[o.Request]
	if e.over {
		failf("%s: %s ends twice", h.name, o.Request)
	}
	e.over, e.err = true, o.Err
	if o.Err != nil {
		h.w.failed = true
		if !r.ask.abort {
			failf("%s: %s fails: %v", h.name, o.Request, o.Err)
		}
		return
	}
	if e.leg != engine.PrefillLeg && e.tokens != r.ask.max {
		failf("%s: %s ends after %d tokens of %d", h.name, o.Request, e.tokens, r.ask.max)
	}
	if e.leg == engine.DecodeLeg && o.Cached != max(0, h.w.p.ends[r.id].first) {
		failf("%s: %d tokens of %s were cached, and its prefill began at %d", h.name, o.Cached, o.Request, h.w.p.ends[r.id].first)
	}
}

// begin looks at what the pass that is out begins with. Every token must see what it may.
func (h *host) begin() {
	if h.begun {
		return
	}
	h.begun = true
	for _, work := range h.pass {
		r := h.w.reqs[work.Request]
		h.w.trace("%s: %s computes [%d,%d)", h.name, r.id, work.Start, work.Start+len(work.Tokens))
		if !slices.Equal(work.Tokens, r.all[work.Start:][:len(work.Tokens)]) {
			failf("%s: the tokens from %d of %s are %v", h.name, work.Start, r.id, work.Tokens)
		}
		h.w.sawPass(h, r, work)
		for _, c := range work.Copies {
			h.memory.copyBlock(c)
		}
		h.visible(r, work.Tables, work.Start, nil)
	}
}

// reports says whether the pass has layers to tell of.
func (h *host) reports() bool {
	return h.layers < layersOf(h.w.c.layout) && slices.ContainsFunc(h.pass, func(w engine.Work) bool { return w.Layers })
}

// report writes some more layers and tells of them, and sometimes of a pass that has ended.
func (h *host) report() {
	h.begin()
	h.write(h.layers + 1 + h.w.rng.IntN(layersOf(h.w.c.layout)-h.layers))
	ev := engine.LayersComputed{Pass: h.number}
	for range h.pass {
		ev.Through = append(ev.Through, h.layers)
	}
	h.w.trace("%s: layers below %d are written", h.name, h.layers)
	if one(h.w.rng, 8) {
		stale := ev
		stale.Pass--
		stale.Through = slices.Repeat([]int{layersOf(h.w.c.layout)}, len(h.pass))
		h.step(stale)
	}
	h.step(ev)
}

// compute ends the pass that is out.
func (h *host) compute() {
	h.begin()
	h.write(layersOf(h.w.c.layout))
	batch := h.pass
	h.pass = nil
	var results []engine.Sampled
	for _, work := range batch {
		r := h.w.reqs[work.Request]
		if work.Sample != nil {
			if work.Sample.Position != work.Start+len(work.Tokens) {
				failf("%s: %s draws for position %d after %d", h.name, r.id, work.Sample.Position, work.Start+len(work.Tokens))
			}
			results = append(results, engine.Sampled{TokenLogprob: wire.TokenLogprob{Token: r.all[work.Sample.Position]}})
		}
	}
	h.step(engine.Computed{Results: results})
}

// visible checks what the token at a position sees: in each group the positions before it, as
// far as its window reaches, or the state. Copies that are still to be made count as made.
func (h *host) visible(r *request, tables []kvcache.BlockTable, position int, copies []kvcache.BlockCopy) {
	for g, group := range h.w.c.layout.Groups {
		if group.Recurrent() {
			if position > 0 {
				h.memory.checkState(r, g, tables[g].Block(0), position)
			}
			continue
		}
		first := 0
		if group.Window > 0 {
			first = max(0, position+1-group.Window)
		}
		for at := first; at < position; at++ {
			b := h.blockOf(r, tables[g], g, at)
			for _, c := range copies {
				if c.Group == g && c.To == b {
					b = c.From
				}
			}
			h.memory.check(r, g, b, at)
		}
	}
}

// write writes the pass's layers below through.
func (h *host) write(through int) {
	layers := kvcache.Span{Start: h.layers, End: through}
	h.layers = through
	for _, work := range h.pass {
		r, end := h.w.reqs[work.Request], work.Start+len(work.Tokens)
		for g, group := range h.w.c.layout.Groups {
			if group.Recurrent() {
				h.memory.putState(r, g, work.Tables[g].Block(0), end, layers)
				continue
			}
			for at := work.Start; at < end; at++ {
				h.memory.put(r, g, h.blockOf(r, work.Tables[g], g, at), at, layers)
			}
		}
	}
}

func (h *host) blockOf(r *request, t kvcache.BlockTable, g, position int) kvcache.BlockID {
	i := position / h.w.c.layout.BlockTokens
	if i < t.First || i >= t.End() {
		failf("%s: %s has no block for position %d of group %d, but [%d,%d)", h.name, r.id, position, g, t.First, t.End())
	}
	return t.Block(i)
}
