package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"kvferry/engine"
	"kvferry/transfer"
)

// world plays one case: it carries out what the engines say, in an order drawn at random.
type world struct {
	c      *ferry
	rng    *rand.Rand
	p, d   *host
	in     *transfer.Mapping // from P's ranks to D's
	reqs   map[string]*request
	legs   []leg // still to be asked
	aborts []*request
	failed bool // some leg has
	line
	seen  *[kindsOfSight]int
	trace func(format string, args ...any)
}

type leg struct {
	r *request
	h *host
}

// failure is what a case ends with if it fails.
type failure string

func failf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func newWorld(c *ferry, a *arena, seen *[kindsOfSight]int, trace func(string, ...any)) *world {
	a.reset()
	w := &world{
		c: c, rng: rand.New(rand.NewPCG(c.seed, 1)), reqs: map[string]*request{}, seen: seen, trace: trace,
	}
	var err error
	if w.in, err = transfer.NewMapping(c.layout, c.p.parallel, c.d.parallel); err != nil {
		failf("%v", err)
	}
	w.p, w.d = w.newHost("P", engine.Prefill, &c.p, a), w.newHost("D", engine.Decode, &c.d, a)
	w.epochs = map[uint64]*epoch{}
	w.sights()
	return w
}

func (w *world) other(h *host) *host {
	if h == w.p {
		return w.d
	}
	return w.p
}

// play serves everything. It panics with a failure if something is wrong.
func (w *world) play() {
	for _, a := range w.c.warm {
		w.add(a)
		w.drain()
	}
	for _, a := range w.c.load {
		w.add(a)
	}
	w.drain()
	w.p.memory.sweep()
	w.d.memory.sweep()
}

// add takes a request in, whose legs are then asked at some time, in either order.
func (w *world) add(a ask) *request {
	r := newRequest(fmt.Sprint("r", len(w.reqs)), a)
	w.reqs[r.id] = r
	if a.on != wholeOnD {
		w.legs = append(w.legs, leg{r, w.p})
	}
	if a.on != wholeOnP {
		w.legs = append(w.legs, leg{r, w.d})
	}
	if a.abort {
		w.aborts = append(w.aborts, r)
	}
	return r
}

// kind is a kind of thing that can happen.
type kind uint8

const (
	submits kind = iota
	computesP
	computesD
	reportsP
	connects
	reachesP
	reachesD
	lands
	acknowledged
	revokes
	verifies
	routes
	aborts
	kinds
)

// drain lets things happen until everything has ended. No time passes: nothing may have to
// wait for a time-out.
func (w *world) drain() {
	for range 20000 {
		var can [kinds]int
		w.enabled(&can)
		total := 0
		for k, n := range can {
			if n > 0 {
				total += w.c.weights[k]
			}
		}
		if total == 0 {
			if !w.over() {
				w.stuck("nothing can happen any more")
			}
			return
		}
		at := w.rng.IntN(total)
		for k, n := range can {
			if n == 0 {
				continue
			}
			if at -= w.c.weights[k]; at < 0 {
				w.happen(kind(k), w.rng.IntN(n))
				break
			}
		}
	}
	w.stuck("it does not end")
}

func (w *world) enabled(can *[kinds]int) {
	can[submits] = len(w.legs)
	can[computesP], can[computesD] = min(1, len(w.p.pass)), min(1, len(w.d.pass))
	if w.p.reports() {
		can[reportsP] = 1
	}
	can[connects] = w.asked
	can[reachesP], can[reachesD] = min(1, len(w.toP)), len(w.toD)
	can[lands], can[acknowledged] = len(w.flights), len(w.acks)
	can[revokes], can[verifies] = len(w.revoking), len(w.verifying)
	can[routes] = len(w.routable())
	if one(w.rng, 16) {
		can[aborts] = len(w.aborts)
	}
}

func (w *world) happen(k kind, i int) {
	switch k {
	case submits:
		l := w.legs[i]
		w.legs = slices.Delete(w.legs, i, i+1)
		l.h.submit(l.r)
	case computesP:
		w.p.compute()
	case computesD:
		w.d.compute()
	case reportsP:
		w.p.report()
	case connects:
		w.connect()
	case reachesP:
		w.deliverToP()
	case reachesD:
		w.deliverToD(i)
	case lands:
		w.land(w.flights[i])
	case acknowledged:
		id := w.acks[i].copy.ID
		w.acks = slices.Delete(w.acks, i, i+1)
		w.p.step(engine.CopyDone{ID: id})
	case revokes:
		w.revoked(i)
	case verifies:
		w.verified(i)
	case routes:
		w.routable()[i].h.abort(w.routable()[i].r, errors.New("the other leg failed"))
	case aborts:
		r := w.aborts[i]
		w.aborts = slices.Delete(w.aborts, i, i+1)
		h := w.p
		if r.ask.on == wholeOnD || r.ask.on == onBoth && coin(w.rng) {
			h = w.d
		}
		h.abort(r, fmt.Errorf("%w: the client left", transfer.ErrCancelled))
	}
}

// routable are the legs that a router would now abort, because the request's other leg failed.
func (w *world) routable() []leg {
	if !w.failed {
		return nil
	}
	var out []leg
	for _, h := range []*host{w.p, w.d} {
		for id, e := range h.ends {
			o := w.other(h).ends[id]
			if e.over && e.err != nil && o != nil && !o.over && e.leg != engine.Whole {
				out = append(out, leg{w.reqs[id], w.other(h)})
			}
		}
	}
	slices.SortFunc(out, func(a, b leg) int { return int(a.r.id[1]) - int(b.r.id[1]) })
	return out
}

func (w *world) over() bool {
	if len(w.legs) > 0 {
		return false
	}
	for _, h := range []*host{w.p, w.d} {
		for _, e := range h.ends {
			if !e.over {
				return false
			}
		}
		if c := h.e.Counts(); c != (engine.Counts{Blocks: c.Blocks, Free: c.Blocks}) {
			return false
		}
	}
	return true
}

func (w *world) stuck(why string) {
	for _, h := range []*host{w.p, w.d} {
		why += fmt.Sprintf("\n%s: %+v", h.name, h.e.Counts())
		for _, held := range h.e.Held() {
			why += fmt.Sprintf(", %s is %s", held.Request, held.State)
		}
	}
	failf("%s", why)
}
