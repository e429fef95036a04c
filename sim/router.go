package sim

import (
	"errors"
	"fmt"
	"strconv"

	"kvferry/engine"
	"kvferry/transfer"
)

var (
	errHungUp   = fmt.Errorf("%w: the client hung up", transfer.ErrCancelled)
	errNodeDown = errors.New("the engine is down")
	errOtherLeg = errors.New("the other leg failed")
	errOperator = fmt.Errorf("%w: by its engine's operator", transfer.ErrCancelled)
)

// request is one request as its router sees it.
type request struct {
	index int
	plan  Request
	id    string
	seq   *sequence
	legs  []*leg
	over  bool // answered, or nobody waits for it any more
	err   error
	ended int64
	// handle is that of a held prompt, attempt the newest at reading it, second says that the
	// second reader has been asked, and turn is the handle that the answer left.
	handle  *engine.Handle
	attempt uint32
	second  bool
	turn    *engine.Handle
}

// leg is one engine's part of a request.
type leg struct {
	r     *request
	kind  engine.Leg
	node  *node
	proc  *proc // once it was submitted
	done  bool  // terminal answer, or none can come
	drawn int   // tokens that came
	// attempt is the router's, of a leg that reads a held prompt.
	attempt uint32
}

func (w *world) id(r int) string { return w.requests[r].id }

// indexOf is the request that an ID names.
func (w *world) indexOf(id string) int {
	n, err := strconv.Atoi(id[1:])
	if err != nil || n < 1 || n > len(w.requests) {
		panic(fmt.Sprintf("sim: the engine names request %q", id))
	}
	return n - 1
}

func (w *world) addRequest(plan Request) *request {
	r := &request{index: len(w.requests), plan: plan, id: "r" + strconv.Itoa(len(w.requests)+1)}
	var alike []int32
	if like := plan.Like - 1; like >= 0 && like < r.index {
		other := w.requests[like].seq
		alike = other.tokens[:min(plan.Alike, other.prompt)]
	}
	if plan.After > 0 {
		alike = w.requests[plan.After-1].seq.tokens
		if plan.Alike > 0 {
			alike = alike[:min(plan.Alike, len(alike))]
		}
	}
	r.seq = newSequence(w.plan.Seed, r.index, plan, alike)
	if plan.Prefill == "" {
		r.legs = []*leg{{r: r, kind: engine.Whole, node: w.nodeNamed(plan.Decode)}}
	} else if r.legs = []*leg{{r: r, kind: engine.PrefillLeg, node: w.nodeNamed(plan.Prefill)}}; !plan.Hold {
		r.legs = []*leg{
			{r: r, kind: engine.PrefillLeg, node: w.nodeNamed(plan.Prefill)},
			{r: r, kind: engine.DecodeLeg, node: w.nodeNamed(plan.Decode)},
		}
	}
	w.requests = append(w.requests, r)
	return r
}

// launch posts both legs at once, except for the skew.
func (w *world) launch(r *request) {
	if n := r.plan.After; n > 0 && !w.requests[n-1].over {
		return // it comes when that one is answered
	}
	for _, l := range r.legs {
		skew := int64(0)
		if l.kind == engine.DecodeLeg {
			skew = max(0, r.plan.Skew)
		} else if l.kind == engine.PrefillLeg {
			skew = max(0, -r.plan.Skew)
		}
		w.after(r.plan.At+skew, func() { w.submit(l) })
	}
}

func (w *world) submit(l *leg) {
	r := l.r
	if r.over {
		l.done = true
		return
	}
	p := l.node.proc
	if p == nil {
		w.legFailed(l, errNodeDown)
		return
	}
	l.proc = p
	p.submitted[r.index]++
	w.logf("%s gets %s", p.node.name, r.id)
	req := engine.Request{
		ID: r.id, Leg: l.kind, Tokens: r.seq.tokens[:r.seq.prompt:r.seq.prompt], MaxTokens: r.plan.Max,
		IgnoreEOS: r.plan.IgnoreEOS, Logprobs: -1,
	}
	switch {
	case l.kind == engine.PrefillLeg && r.plan.Hold:
		req.Hold = true
		if r.plan.After > 0 {
			req.Pull = w.requests[r.plan.After-1].turn
		}
	case l.kind == engine.DecodeLeg && r.plan.Hold:
		req.Pull, req.Attempt = r.handle, l.attempt
	case l.kind == engine.DecodeLeg:
		req.Peer = r.plan.Prefill
	}
	p.deliver(engine.Submit{Request: req})
	w.hook(r.index, AtSubmit)
}

// tokenOut checks a token of an answer.
func (w *world) tokenOut(p *proc, o engine.Token) {
	r := w.requests[w.indexOf(o.Request)]
	w.note("token", p.node.index, r.index, int(o.Sampled.Token))
	l := r.legOn(p)
	if l == nil || l.kind == engine.PrefillLeg {
		w.fail("right tokens", "%s streams a token of %s, which it does not decode", p.node.name, r.id)
		return
	}
	want := r.seq.answer()
	if l.drawn >= len(want) || want[l.drawn] != o.Sampled.Token {
		w.fail("right tokens", "%s: token %d of the answer to %s is %d; right is %v", p.node.name, l.drawn, r.id, o.Sampled.Token, want)
		return
	}
	l.drawn++
	w.hook(r.index, AtToken)
}

func (r *request) legOn(p *proc) *leg {
	for i := len(r.legs) - 1; i >= 0; i-- {
		if r.legs[i].proc == p {
			return r.legs[i]
		}
	}
	return nil
}

// finishOut takes a leg's terminal answer.
func (w *world) finishOut(p *proc, o engine.Finish) {
	r := w.requests[w.indexOf(o.Request)]
	w.note("finish", p.node.index, r.index, o.Completion)
	w.logf("%s ends %s: %s", p.node.name, r.id, verdict(o.Err))
	p.finished[r.index]++
	if p.finished[r.index] > p.submitted[r.index] {
		w.fail("one answer", "%s ends %s twice", p.node.name, r.id)
		return
	}
	l := r.legOn(p)
	if o.Handle != nil { // the shell's part of it
		o.Handle.Life, o.Handle.Addr = p.life, p.node.name
	}
	if o.Err == nil {
		w.checkAnswer(l, o)
	} else if errors.Is(o.Err, transfer.ErrTimeout) && !w.probing && w.plan.quiet() {
		w.fail("no needless time-out", "%s: %s: %v", p.node.name, r.id, o.Err)
	}
	w.hook(r.index, AtFinish)
	w.after(w.hop(l), func() {
		if l.done {
			return
		}
		l.done = true
		switch {
		case o.Err != nil:
			w.legFailed(l, o.Err)
		case l.kind != engine.PrefillLeg:
			r.turn = o.Handle
			w.answer(r, nil)
		case r.plan.Hold:
			w.handed(r, o.Handle)
		}
	})
}

func verdict(err error) string {
	if err == nil {
		return "well"
	}
	return err.Error()
}

func (w *world) checkAnswer(l *leg, o engine.Finish) {
	if l.kind == engine.PrefillLeg {
		return
	}
	want := l.r.seq.answer()
	reason := engine.FinishLength
	if l.r.seq.stops {
		reason = engine.FinishStop
	}
	if l.drawn != len(want) || o.Reason != reason {
		w.fail("right tokens", "%s: the answer to %s ends by %s after %d tokens; right is %v by %s",
			l.proc.node.name, l.r.id, o.Reason, l.drawn, want, reason)
	}
}

// hop is how long the router and an engine take to hear of each other.
func (w *world) hop(l *leg) int64 {
	return w.plan.Cluster.Latency + w.jitter('r', uint64(l.r.index), uint64(l.node.index))
}

func (w *world) legFailed(l *leg, err error) {
	l.done = true
	if w.goesOn(l) {
		return
	}
	w.answer(l.r, fmt.Errorf("%s: %w", l.node.name, err))
}

// answer ends a request for its client, and what is left of it on the engines.
func (w *world) answer(r *request, err error) {
	if r.over {
		return
	}
	r.over, r.err, r.ended = true, err, w.now
	w.followed(r)
	if err == nil && r.handle == nil {
		return // the prefill leg ends by itself
	}
	if err != nil {
		w.logf("%s has failed: %v", r.id, err)
		w.forget(r)
	}
	cause := error(errOtherLeg)
	if errors.Is(err, errHungUp) {
		cause = errHungUp
	}
	for _, l := range r.legs {
		if l.proc != nil && !l.done {
			w.after(w.hop(l), func() { w.abort(l, cause) })
		}
	}
}

func (w *world) abort(l *leg, cause error) {
	if l.proc != nil && !l.proc.dead {
		w.logf("%s is to cancel %s", l.node.name, l.r.id)
		l.proc.deliver(engine.Abort{ID: l.r.id, Cause: cause})
	}
}

// legsLost tells the router of the legs that died with a process.
func (w *world) legsLost(p *proc) {
	for _, r := range w.requests {
		for _, l := range r.legs {
			if l.proc == p && !l.done {
				w.after(w.hop(l), func() {
					if !l.done {
						w.legFailed(l, errNodeDown)
					}
				})
			}
		}
	}
}

func (w *world) recordOut(p *proc, o engine.Record) {
	w.note("record", p.node.index, w.indexOf(o.Request), int(o.What)<<8|o.Slice)
	if o.What == transfer.SliceDue {
		w.trace.mark(p.node, "control", fmt.Sprintf("%s slice %d due", o.Request, o.Slice), w.now)
	}
}
