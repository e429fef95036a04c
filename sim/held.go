package sim

import "kvferry/engine"

// The router's part where prompts are held (context_first).

// handed posts the decode leg of a prompt that is held, and its twin's.
func (w *world) handed(r *request, h *engine.Handle) {
	if h == nil {
		w.fail("protocol", "%s ends the prefill of %s and gives no handle", r.legs[0].node.name, r.id)
		return
	}
	r.handle = h
	if r.over {
		w.forget(r)
		return
	}
	r.attempt = 1
	w.decode(r, r.plan.Decode)
	if r.plan.Twin != "" {
		if r.plan.Newer {
			r.attempt++
		}
		w.decode(r, r.plan.Twin)
	}
}

func (w *world) decode(r *request, name string) {
	l := &leg{r: r, kind: engine.DecodeLeg, node: w.nodeNamed(name), attempt: r.attempt}
	r.legs = append(r.legs, l)
	w.after(w.hop(l), func() { w.submit(l) })
}

// goesOn says whether a request can be served still, though a leg failed: by a twin, or by the
// second reader, which then gets the handle.
func (w *world) goesOn(l *leg) bool {
	r := l.r
	if l.kind != engine.DecodeLeg || r.handle == nil || r.over {
		return false
	}
	if r.plan.Second != "" && !r.second {
		r.second = true
		r.attempt++
		w.decode(r, r.plan.Second)
		return true
	}
	for _, x := range r.legs {
		if !x.done {
			return true
		}
	}
	return false
}

// forget lets the holder of a prompt know that nobody is going to read it.
func (w *world) forget(r *request) {
	if r.handle == nil {
		return
	}
	n := w.nodeOf(r.handle.Life)
	w.after(w.hop(r.legs[0]), func() {
		if n.proc != nil && n.proc.life == r.handle.Life {
			w.logf("%s is to forget %s", n.name, r.id)
			n.proc.deliver(engine.Forget{Request: r.handle.Request, Nonce: r.handle.Nonce})
		}
	})
}

// followed lets the next turns of a conversation come.
func (w *world) followed(r *request) {
	for _, next := range w.requests {
		if next.plan.After == r.index+1 {
			w.launch(next)
		}
	}
}
