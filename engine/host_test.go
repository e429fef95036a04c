package engine

import (
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// host is a process: an engine, its memory, and what its agent has granted.
type host struct {
	c    *cluster
	addr string
	life wire.Life
	cfg  Config
	e    *Engine
	toy  *toy

	pass    []Work // out, nil if none is
	asked   []string
	grants  map[uint64]*grant
	answers map[string]*answer
}

// grant is a receive epoch that the host opened.
type grant struct {
	peer              wire.Life
	blocks            [][]kvcache.BlockID
	revoking, revoked bool
}

// answer is what came of a request on one host.
type answer struct {
	want   *wanted
	leg    Leg
	tokens []int32
	text   string
	finish *Finish
}

func (c *cluster) newHost(addr string, cfg Config) *host {
	c.lives++
	m := newToy(cfg.Layout, cfg.Blocks)
	cfg.Freed = m.poison
	e, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	var l wire.Life
	copy(l[:], addr)
	l[15] = byte(c.lives)
	return &host{
		c: c, addr: addr, life: l, cfg: cfg, e: e, toy: m,
		grants: map[uint64]*grant{}, answers: map[string]*answer{},
	}
}

// step gives the engine an event and carries out what it says.
func (h *host) step(ev Event) {
	h.e.Step(h.c.now, ev)
	h.perform()
}

func (h *host) perform() {
	for outs := h.e.Outputs(); len(outs) > 0; outs = h.e.Outputs() {
		for _, o := range outs {
			h.output(o)
		}
	}
}

func (h *host) output(o Output) {
	switch o := o.(type) {
	case Compute:
		if h.pass != nil {
			h.c.t.Fatalf("%s: a second pass goes out", h.addr)
		}
		h.pass = o.Batch
		h.checkPass()
	case Token:
		h.token(o)
	case Finish:
		h.finish(o)
	case Connect:
		h.asked = append(h.asked, o.Addr)
	case Copy:
		h.c.copyBegins(h, o)
	case transfer.Notify:
		h.c.notify(h, o)
	case transfer.Grant:
		h.grants[o.Epoch] = &grant{peer: o.Peer, blocks: o.Blocks}
	case transfer.Revoke:
		h.grants[o.Epoch].revoking = true
	case transfer.Drop:
		h.c.drops = append(h.c.drops, drop{h.life, o.Peer})
	}
}

// checkPass: one pass computes no more prompt tokens than a chunk, unless it is one prompt.
func (h *host) checkPass() {
	prompts, tokens := 0, 0
	for _, w := range h.pass {
		if len(w.Tokens) > 1 || w.Start < len(h.answers[w.Request].want.req.Tokens) {
			prompts++
			tokens += len(w.Tokens)
		}
	}
	if h.cfg.Chunked && tokens > h.cfg.ChunkTokens || !h.cfg.Chunked && prompts > 1 && tokens > h.cfg.ChunkTokens {
		h.c.t.Fatalf("%s: a pass computes %d tokens of %d prompts", h.addr, tokens, prompts)
	}
	if len(h.e.running) > h.cfg.MaxSeqs {
		h.c.t.Fatalf("%s: %d requests have a compute slot of %d", h.addr, len(h.e.running), h.cfg.MaxSeqs)
	}
}

func (h *host) token(o Token) {
	a := h.answers[o.Request]
	a.tokens, a.text = append(a.tokens, o.Sampled.Token), a.text+string(o.Text)
	if a.finish != nil || a.leg == PrefillLeg {
		h.c.t.Fatalf("%s: %s gets a token after its end, or for a prefill leg", h.addr, o.Request)
	}
	if n := len(a.tokens); n > len(a.want.tokens) || !slices.Equal(a.tokens, a.want.tokens[:n]) {
		h.c.t.Fatalf("%s: %s gets tokens %v, and %v alone", h.addr, o.Request, a.tokens, a.want.tokens)
	}
}

func (h *host) finish(o Finish) {
	a := h.answers[o.Request]
	if a.finish != nil {
		h.c.t.Fatalf("%s: %s has a second end: %+v after %+v", h.addr, o.Request, o, *a.finish)
	}
	a.finish = &o
	a.text += string(o.Text)
	if o.Err != nil || a.leg == PrefillLeg {
		return
	}
	if len(a.tokens) != len(a.want.tokens) || a.text != a.want.text || o.Reason != a.want.reason {
		h.c.t.Fatalf("%s: %s ends with %v %q %s, and with %v %q %s alone", h.addr, o.Request,
			a.tokens, a.text, o.Reason, a.want.tokens, a.want.text, a.want.reason)
	}
}

// holds says whether a request's blocks include these, one group's each.
func (h *host) holds(request string, blocks []pair, source bool) bool {
	for _, held := range h.e.Held() {
		if held.Request != request || held.Tables == nil {
			continue
		}
		for _, p := range blocks {
			id := p.dst
			if source {
				id = p.src
			}
			if !slices.Contains(held.Tables[p.group].Blocks, id) {
				return false
			}
		}
		return true
	}
	return false
}

// idle says that the engine holds nothing at all.
func (h *host) idle() bool {
	c := h.e.Counts()
	return c == (Counts{Blocks: c.Blocks, Free: c.Blocks})
}
