package sim

import (
	"fmt"
	"strings"

	"kvferry/engine"
)

// pending says what is not over yet, for the report of a hang.
func (w *world) pending() string {
	var out []string
	for _, r := range w.requests {
		if !r.over {
			out = append(out, r.id+" has no answer")
		}
	}
	for _, n := range w.nodes {
		if n.proc != nil {
			out = append(out, n.proc.holdings()...)
		}
	}
	return strings.Join(out, "; ")
}

func (p *proc) holdings() []string {
	var out []string
	for _, h := range p.eng.Held() {
		s := fmt.Sprintf("%s holds %s (%s", p.node.name, h.Request, h.State)
		if h.Send != nil {
			s += ", send " + h.Send.Phase()
		}
		if h.Offer != nil {
			s += ", offer " + h.Offer.Phase()
		}
		if h.Pull != nil {
			s += ", pull " + h.Pull.Phase()
		}
		if h.Receive != nil {
			s += ", receive " + h.Receive.Phase()
		}
		out = append(out, s+")")
	}
	return out
}

// checkEnded looks, when nothing is left to happen, whether every request has ended: for its
// client, and once on each engine that had it and lives.
func (w *world) checkEnded() {
	for _, r := range w.requests {
		if !r.over {
			w.fail("hang", "nothing more happens and %s has no answer; %s", r.id, w.pending())
		}
		if r.err != nil && w.plan.calm() {
			w.fail("served", "nothing goes wrong and %s fails: %v", r.id, r.err)
		}
	}
	for _, n := range w.nodes {
		for _, p := range n.procs {
			w.checkAnswers(p)
		}
	}
}

// calm says whether nothing goes wrong in a plan, so that every request must be served.
func (p Plan) calm() bool { return len(p.Faults) == 0 && p.quiet() }

func (w *world) checkAnswers(p *proc) {
	for r := range w.requests {
		if !p.dead && p.finished[r] != p.submitted[r] {
			w.fail("one answer", "%s got %s %d times and ended it %d times", p.node.name, w.id(r), p.submitted[r], p.finished[r])
		}
	}
}

// probe shows that the cluster serves after all that was done to it: one request after
// another through every pair of engines, and one whole on every engine.
func (w *world) probe() {
	for _, p := range w.nodes {
		w.probeOne(Request{Decode: p.name})
		for _, d := range w.nodes {
			if p.role == engine.Prefill && d.role == engine.Decode {
				w.probeOne(Request{Prefill: p.name, Decode: d.name})
				if w.plan.Cluster.Slots > 0 && !w.plan.Cluster.recurrent() {
					w.probeOne(Request{Prefill: p.name, Decode: d.name, Hold: true})
				}
			}
		}
	}
}

// probeBlocks is the most blocks of a group that a probe needs, at one token a block.
const probeBlocks = 3

func (w *world) probeOne(plan Request) {
	if w.bad != nil {
		return
	}
	plan.Prompt, plan.Max = w.plan.Cluster.BlockTokens+1, 2
	r := w.addRequest(plan)
	w.launch(r)
	w.settle(w.now + w.plan.horizon())
	if w.bad == nil && (!r.over || r.err != nil) {
		w.fail("serves again", "after everything was healed a request on %s %s fails: %v", plan.Prefill, plan.Decode, r.err)
	}
}

// checkIdle looks whether everything is at its baseline.
func (w *world) checkIdle() {
	if w.bad != nil {
		return
	}
	for _, n := range w.nodes {
		p := n.proc
		c := p.eng.Counts()
		if c != (engine.Counts{Blocks: c.Blocks, Free: c.Blocks}) {
			w.fail("no leak", "%s is idle and not at its baseline: %+v; %s", n.name, c, strings.Join(p.holdings(), "; "))
		}
		if len(p.grants) > 0 {
			w.fail("no leak", "%s is idle and epoch %d is open", n.name, p.grants[0].epoch)
		}
		for slot, v := range p.slots {
			if v != 0 {
				w.fail("no leak", "%s is idle and lease slot %d holds %x", n.name, slot, v)
			}
		}
		if len(p.reading) > 0 {
			w.fail("no leak", "%s is idle and a read is in flight", n.name)
		}
		w.checkAnswers(p)
		for _, l := range p.links {
			if mine, _ := l.side(p); len(mine.flight) > 0 {
				w.fail("no leak", "%s is idle and a copy is in flight", n.name)
			}
		}
	}
}
