package sim

import (
	"fmt"
	"strings"

	"kvferry/engine"
)

// trigger is a fault that waits.
type trigger struct {
	f     Fault
	fired bool
}

// pointKey counts how often a request passed a point.
type pointKey struct {
	request int
	point   Point
}

// arm sets a fault to its instant or its point.
func (w *world) arm(f Fault) {
	t := &trigger{f: f}
	w.triggers = append(w.triggers, t)
	if f.On == "" {
		w.after(f.At, func() { w.fire(t) })
	}
}

// hook says that a request passed a point, which may set faults off: a moment later, so that
// what passes the point is done first.
func (w *world) hook(r int, point Point) {
	if w.probing {
		return
	}
	w.passed[pointKey{r, point}]++
	nth := w.passed[pointKey{r, point}]
	for _, t := range w.triggers {
		if t.f.On == point && t.f.Request == r+1 && t.f.Nth == nth && !t.f.Kind.isInline() {
			w.strike(t)
		}
	}
}

// strike fires a trigger after its delay. A pass fails the very moment it begins.
func (w *world) strike(t *trigger) {
	if t.f.After == 0 && t.f.Kind == PassFail {
		w.fire(t)
		return
	}
	w.after(t.f.After, func() { w.fire(t) })
}

// strikes gives the faults that strike the message, or block, which is about to be sent.
func (w *world) strikes(r int, point Point) []Fault {
	if w.probing {
		return nil
	}
	w.hook(r, point)
	nth := w.passed[pointKey{r, point}]
	var out []Fault
	for _, t := range w.triggers {
		if t.f.Kind.isInline() && t.f.On == point && t.f.Request == r+1 && t.f.Nth == nth && !t.fired {
			t.fired = true
			w.struck++
			w.note(string(t.f.Kind), 0, r, nth)
			w.logf("fault %s: %s of %s", t.f.Kind, point, w.id(r))
			out = append(out, t.f)
		}
	}
	return out
}

func (w *world) fire(t *trigger) {
	f := t.f
	if t.fired || w.probing {
		return
	}
	t.fired = true
	w.struck++
	w.note(string(f.Kind), 0, f.Request, f.Nth)
	w.logf("fault %s", strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Kind, f.Node, f.Peer)))
	switch f.Kind {
	case Cancel:
		w.cancel(f)
	case Partition:
		w.block(w.nodeNamed(f.Node), w.nodeNamed(f.Peer), f.For)
	case Drop:
		w.breakLinks(w.nodeNamed(f.Node), w.nodeNamed(f.Peer))
	case Slow:
		w.slowDown(f)
	case Mute, Lag, Echo:
		w.disturb(f)
	default:
		w.strikeNode(w.nodeNamed(f.Node), f)
	}
}

func (w *world) strikeNode(n *node, f Fault) {
	if f.Kind == Freeze || f.Kind == Stop {
		for _, other := range w.nodes {
			if other != n {
				w.block(n, other, f.For)
			}
		}
	}
	if n.proc == nil {
		return
	}
	switch f.Kind {
	case Crash:
		n.proc.crash(f.Host)
		if f.For > 0 {
			w.after(f.For, func() {
				if n.proc == nil {
					w.start(n)
				}
			})
		}
	case Stall, Stop:
		n.proc.stall(f.For)
	case PassFail:
		if n.proc.pass != nil {
			n.proc.pass.fails = true
		} else {
			n.proc.passFail = true
		}
	}
}

// cancel has the client hang up, or one engine abort its leg.
func (w *world) cancel(f Fault) {
	victim := f.Request
	if f.Victim > 0 {
		victim = f.Victim
	}
	r := w.requests[victim-1]
	if f.Leg == "" {
		w.answer(r, errHungUp)
		return
	}
	for _, l := range r.legs {
		if (l.kind != engine.PrefillLeg) == (f.Leg == "decode") {
			w.abort(l, errOperator)
		}
	}
}

// breakLinks breaks the connections between two nodes; each side notices by itself.
func (w *world) breakLinks(a, b *node) {
	if a.proc == nil || b.proc == nil {
		return
	}
	for _, l := range a.proc.links {
		mine, other := l.side(a.proc)
		if other.p == b.proc {
			l.loses(mine)
			l.loses(other)
		}
	}
}

func (w *world) slowDown(f Fault) {
	p := w.paths[w.nodeNamed(f.Node).index][w.nodeNamed(f.Peer).index]
	p.slow = int64(max(1, f.By))
	w.after(f.For, func() { p.slow = 1 })
}

// heal ends every disturbance: what is down starts again, what stood still goes on.
func (w *world) heal() {
	w.probing = true
	for _, row := range w.paths {
		for _, p := range row {
			if p != nil {
				p.blockedUntil, p.slow, p.beats = 0, 1, beatFault{}
			}
		}
	}
	for _, n := range w.nodes {
		if n.proc == nil {
			w.start(n)
		}
		n.proc.passFail = false
	}
}

// lossy says whether messages were lost without their connection, or withheld by a broken
// peer, on agents without a fence. Then blocks may stay in quarantine until the writer's
// connection ends, and not before: no time is long enough.
func (p Plan) lossy() bool {
	if p.Cluster.Fencing {
		return false
	}
	for _, f := range p.Faults {
		if f.Kind == Lose || f.Kind == Corrupt {
			return true
		}
	}
	return false
}

func (w *world) cutAll() {
	for i, a := range w.nodes {
		for _, b := range w.nodes[:i] {
			w.breakLinks(a, b)
		}
	}
}
