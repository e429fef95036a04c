package sim

import (
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
)

// Options say what a run is to keep beside its verdict.
type Options struct {
	// Log keeps a line for every event, Trace the record of compute, copies and states.
	Log, Trace bool
}

// Violation is a broken invariant.
type Violation struct {
	// Rule names the invariant, What says how it was broken.
	Rule, What string
	At         int64
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s at %v: %s", v.Rule, dur(v.At), v.What)
}

// Outcome is what came of a run.
type Outcome struct {
	Violation *Violation // nil: nothing is wrong
	// Hash is of every event in order: equal runs have equal hashes.
	Hash   uint64
	Events int
	Faults int   // that struck
	Ended  int64 // virtual nanoseconds
	// Served and Failed count the requests by how they ended; a probe is none.
	Served, Failed int
	Cover          *Coverage
	Log            []string
	Trace          *Trace
}

// maxEvents ends a run that makes no headway in virtual time.
const maxEvents = 2_000_000

// world is one run.
type world struct {
	plan   Plan
	layout kvcache.Layout
	// mapping is that of the prefill engines' ranks onto the decode engines'.
	mapping *transfer.Mapping
	// back is that of the decode engines' onto the prefill engines', for what those read.
	back   *transfer.Mapping
	now    int64
	queue  queue
	hash   uint64
	events int
	bad    *Violation

	nodes    []*node
	paths    [][]*path
	requests []*request
	passed   map[pointKey]int
	triggers []*trigger
	struck   int
	probing  bool

	cover *Coverage
	keep  Options
	log   []string
	trace *Trace
}

// Run executes a plan. One that cannot be run breaks the rule setup.
func Run(plan Plan, keep Options) Outcome {
	if err := plan.Validate(); err != nil {
		return Outcome{Violation: &Violation{Rule: "setup", What: err.Error()}, Cover: newCoverage(), Trace: newTrace()}
	}
	w := newWorld(plan, keep)
	w.guard(w.play)
	out := Outcome{
		Violation: w.bad, Hash: w.hash, Events: w.events, Faults: w.struck, Ended: w.now,
		Cover: w.cover, Log: w.log, Trace: w.trace,
	}
	for _, r := range w.requests[:len(plan.Requests)] {
		if r.over && r.err == nil {
			out.Served++
		} else {
			out.Failed++
		}
	}
	return out
}

func newWorld(plan Plan, keep Options) *world {
	w := &world{
		plan: plan, layout: plan.Cluster.layout(), keep: keep,
		passed: map[pointKey]int{}, cover: newCoverage(),
	}
	if keep.Trace {
		w.trace = newTrace()
	}
	var err error
	w.mapping, err = transfer.NewMapping(w.layout, plan.Cluster.parallel(engine.Prefill), plan.Cluster.parallel(engine.Decode))
	if err != nil {
		panic(err) // Validate has tried it
	}
	w.back, err = transfer.NewMapping(w.layout, plan.Cluster.parallel(engine.Decode), plan.Cluster.parallel(engine.Prefill))
	if err != nil {
		panic(err) // what maps one way maps the other
	}
	w.makeNodes()
	for i := range plan.Requests {
		w.addRequest(plan.Requests[i])
	}
	for _, f := range plan.Faults {
		w.arm(f)
	}
	return w
}

// guard turns a panic of a machine into a violation: whatever its peers do, it must not.
func (w *world) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", "%v\n%s", r, debug.Stack())
		}
	}()
	f()
}

// play runs the plan to its end, heals the cluster, shows that it serves again, and looks for
// what is left.
func (w *world) play() {
	for _, n := range w.nodes {
		w.start(n)
	}
	for _, r := range w.requests {
		w.launch(r)
	}
	if w.settle(w.plan.horizon()); w.bad != nil {
		return
	}
	if w.plan.lossy() {
		w.cutAll()
		w.settle(w.now + w.plan.horizon())
	}
	w.checkEnded()
	w.heal()
	w.settle(w.now + w.plan.horizon())
	w.probe()
	w.checkIdle()
}

// settle runs until nothing more is going to happen, which must be before the deadline.
func (w *world) settle(deadline int64) {
	for w.bad == nil && len(w.queue.items) > 0 {
		e := w.queue.pop()
		w.now = e.at
		w.events++
		switch {
		case w.now > deadline:
			w.fail("hang", "still going on after %v; %s", dur(deadline), w.pending())
		case w.events > maxEvents:
			w.fail("hang", "more than %d events", maxEvents)
		default:
			e.run()
		}
	}
}

// after has something happen later; things of one instant happen in the order of this call.
func (w *world) after(d int64, run func()) { w.queue.push(w.now+d, run) }

// fail notes the first violation; the run stops there.
func (w *world) fail(rule, format string, args ...any) {
	if w.bad == nil {
		w.bad = &Violation{Rule: rule, What: fmt.Sprintf(format, args...), At: w.now}
		w.logf("VIOLATION %s: %s", rule, w.bad.What)
	}
}

// note adds what happens to the run's hash.
func (w *world) note(what string, who, a, b int) {
	h := w.hash
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * 0x100000001b3
	}
	w.hash = mix2(h^uint64(w.now), uint64(who)<<48^uint64(a)<<24^uint64(b))
}

// logf keeps a line. Probes are not worth any, unless they fail.
func (w *world) logf(format string, args ...any) {
	if w.keep.Log && (!w.probing || w.bad != nil) {
		w.log = append(w.log, fmt.Sprintf("%-9v %s", dur(w.now), w.named(fmt.Sprintf(format, args...))))
	}
}

// named puts nodes' names for lives, with the number of the life from the second on.
func (w *world) named(line string) string {
	for _, n := range w.nodes {
		for i, p := range n.procs {
			name := n.name
			if i > 0 {
				name = fmt.Sprintf("%s.%d", n.name, i+1)
			}
			line = strings.ReplaceAll(line, p.life.String(), name)
		}
	}
	return line
}

// jitter is a delay that depends on the seed and what it is for, and on nothing that happened
// before: so taking a fault or a request out of a plan changes little else.
func (w *world) jitter(a, b, c uint64) int64 {
	most := w.plan.Cluster.Jitter
	if most <= 0 {
		return 0
	}
	return int64(mix2(mix2(w.plan.Seed, a), b<<20^c) % uint64(most+1))
}

// dur is how a virtual time prints.
func dur(ns int64) time.Duration { return time.Duration(ns) }

// never is later than every instant of a run.
const never int64 = math.MaxInt64

// queue is what is going to happen, in order of time and then of entry.
type queue struct {
	items []happening
	seq   uint64
}

type happening struct {
	at  int64
	seq uint64
	run func()
}

func (h happening) before(o happening) bool {
	return h.at < o.at || h.at == o.at && h.seq < o.seq
}

func (q *queue) push(at int64, run func()) {
	q.seq++
	q.items = append(q.items, happening{at, q.seq, run})
	i := len(q.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !q.items[i].before(q.items[up]) {
			break
		}
		q.items[i], q.items[up] = q.items[up], q.items[i]
		i = up
	}
}

func (q *queue) pop() happening {
	top := q.items[0]
	n := len(q.items) - 1
	q.items[0] = q.items[n]
	q.items[n] = happening{}
	q.items = q.items[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if q.items[c].before(q.items[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		q.items[i], q.items[least] = q.items[least], q.items[i]
		i = least
	}
}
