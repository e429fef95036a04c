package engine

import (
	"pgregory.net/rapid"

	"kvferry/transfer"
)

// act is one thing that can happen.
type action struct {
	name string
	do   func()
}

// enabled lists what can happen now, in an order that does not change. Faults come last.
func (d *driver) enabled() []action {
	var acts []action
	add := func(name string, do func()) { acts = append(acts, action{name, do}) }
	for _, w := range d.c.requests {
		for i := range w.legs {
			add("ask", func() { d.ask(w, i) })
		}
	}
	for _, h := range d.c.hosts() {
		if h.pass != nil {
			add("compute", func() { d.compute(h, nil) })
		}
		if len(h.asked) > 0 {
			add("connect", func() { d.c.connect(h, nil) })
		}
		for epoch := uint64(1); epoch <= uint64(len(h.grants)+len(d.c.requests)); epoch++ {
			if g := h.grants[epoch]; g != nil && g.revoking && !g.revoked {
				add("revoked", func() {
					g.revoked = true
					h.step(EpochRevoked{Epoch: epoch})
				})
			}
		}
	}
	for _, l := range d.c.links {
		d.wire(l, add)
	}
	for _, w := range d.c.requests {
		d.router(w, add)
	}
	if d.storm {
		add("time", func() { d.c.tick(d.c.now + rapid.Int64Range(1, 15).Draw(d.t, "pass")) })
	}
	if d.faults > 0 {
		d.addFaults(add)
	}
	return acts
}

func (d *driver) wire(l *link, add func(string, func())) {
	if len(l.toP) > 0 {
		add("to P", func() {
			m := l.toP[0]
			l.toP = l.toP[1:]
			l.p.step(Message{Peer: l.d.life, Msg: m})
		})
	}
	if len(l.toD) > 0 {
		add("to D", func() {
			i := rapid.IntRange(0, len(l.toD)-1).Draw(d.t, "which")
			m := l.toD[i]
			l.toD = append(l.toD[:i], l.toD[i+1:]...)
			l.d.step(Message{Peer: l.p.life, Msg: m})
		})
	}
	if len(l.flights) > 0 {
		add("land", func() { d.c.land(l, pick(d.t, l.flights, "flight")) })
	}
	if len(l.acks) > 0 {
		add("ack", func() {
			i := rapid.IntRange(0, len(l.acks)-1).Draw(d.t, "which")
			id := l.acks[i]
			l.acks = append(l.acks[:i], l.acks[i+1:]...)
			l.p.step(CopyDone{ID: id})
		})
	}
}

// router aborts the leg whose other leg has failed.
func (d *driver) router(w *wanted, add func(string, func())) {
	if w.p == nil {
		return
	}
	for _, legs := range [][2]*host{{w.p, w.d}, {w.d, w.p}} {
		failed, other := legs[0].answers[w.req.ID], legs[1].answers[w.req.ID]
		if failed != nil && failed.finish != nil && failed.finish.Err != nil && other != nil && other.finish == nil {
			add("router", func() { legs[1].step(Abort{ID: w.req.ID, Cause: errGone}) })
		}
	}
}

func (d *driver) addFaults(add func(string, func())) {
	fault := func(name string, do func()) {
		add(name, func() {
			d.faults--
			do()
		})
	}
	fault("abort", func() {
		h := pick(d.t, d.c.hosts(), "where")
		h.step(Abort{ID: pick(d.t, d.c.requests, "which").req.ID, Cause: transfer.ErrCancelled})
	})
	fault("kill", func() { d.c.kill(pick(d.t, d.c.hosts(), "whom")) })
	for _, h := range d.c.hosts() {
		if h.pass != nil {
			fault("pass fails", func() { d.compute(h, errGPU) })
		}
		if len(h.asked) > 0 {
			fault("no connection", func() { d.c.connect(h, errLine) })
		}
	}
	for _, l := range d.c.links {
		fault("lose", func() { d.c.lose(l, nil) })
		if len(l.flights) > 0 {
			fault("copy fails", func() {
				f := pick(d.t, l.flights, "flight")
				l.remove(f)
				l.p.step(CopyDone{ID: f.copy.ID, Err: errLine})
			})
		}
	}
}

func (d *driver) compute(h *host, err error) {
	batch := h.pass
	h.pass = nil
	ev := Computed{Err: err}
	if err == nil {
		ev.Results = h.toy.run(batch)
	}
	h.step(ev)
}

func (d *driver) act(a action) {
	a.do()
	d.c.settle()
}

// drain lets everything that can happen happen; time passes only when nothing else can, and
// after a storm alone.
func (d *driver) drain(timePasses bool) {
	for range 5000 {
		if d.c.over() {
			return
		}
		if acts := d.enabled(); len(acts) > 0 {
			d.act(acts[0])
			continue
		}
		next := transfer.Never
		for _, h := range d.c.hosts() {
			next = min(next, h.e.Deadline())
		}
		if !timePasses || next == transfer.Never {
			break
		}
		d.c.tick(max(d.c.now, next))
		d.c.settle()
	}
	d.stuck()
}

func (d *driver) stuck() {
	for _, h := range d.c.hosts() {
		for _, held := range h.e.Held() {
			d.t.Logf("%s holds %s: %s", h.addr, held.Request, held.State)
		}
		d.t.Logf("%s: %+v, deadline %d", h.addr, h.e.Counts(), h.e.Deadline())
	}
	d.t.Fatalf("it does not end: time %d, %d links", d.c.now, len(d.c.links))
}
