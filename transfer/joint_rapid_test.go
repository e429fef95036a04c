package transfer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

// TestSendAndReceive joins the two sides and lets anything happen in any order: chunks of any
// size, whole or layer by layer, copies block by block, results in any order and more than once, cancels on either
// side, failing passes and copies, a lost connection, time. Whatever came, it ends: then
// everything goes well from there on, or nothing on the wire moves any more.
//
// It checks that a receive is never complete before every byte is there, that blocks are
// released once and never while a copy or a pass uses them, that the first terminal output of
// a side stands and each has one, and that deadlines bring it all to an end.
//
// req: PIPE-02
// req: PIPE-13
// req: PIPE-15
// req: PIPE-16
// req: PIPE-17
// req: PIPE-18
// req: PIPE-19
// req: PIPE-32
// case: 05
// case: 13
// case: 18
// case: 19
func TestSendAndReceive(t *testing.T) {
	for range 20 {
		rapid.Check(t, anythingHappens)
	}
}

func anythingHappens(t *rapid.T) {
	w := newWorld(t)
	faults := rapid.IntRange(0, 3).Draw(t, "faults")
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		w.act(rapid.SampledFrom(w.enabled(faults > 0)).Draw(t, "action"), &faults)
		w.observe()
	}
	if rapid.Bool().Draw(t, "stuck") {
		w.endStuck()
	} else {
		w.endWell()
	}
	if w.sendEnd == "" || w.recvEnd == "" || !w.srcFree || w.dstFree == (w.recvEnd == "received") {
		t.Fatalf("it is over: %v, released %v and %v", w, w.srcFree, w.dstFree)
	}
}

// enabled are the things that can happen now, in an order that does not change.
func (w *world) enabled(faults bool) []string {
	acts := []string{"time"}
	add := func(ok bool, names ...string) {
		if ok {
			acts = append(acts, names...)
		}
	}
	add(w.conn == connNone, "connect")
	add(w.computing == nil && w.cursor < w.prompt && w.sendEnd == "", "start", "start")
	add(w.computing != nil, "compute", "compute")
	add(w.computing != nil && w.through < layersOf(w.layout), "layers", "layers")
	add(len(w.flights) > 0, "land", "land", "land")
	add(len(w.acks) > 0, "ack")
	add(len(w.toP) > 0, "to P")
	add(len(w.toD) > 0, "to D", "to D")
	add(w.revoking && !w.revoked, "revoked")
	if faults {
		add(true, "cancel P", "cancel D")
		add(w.conn == connUp, "lose")
		add(w.conn == connNone, "unreachable")
		add(w.computing != nil, "pass fails")
		add(len(w.flights) > 0, "copy fails")
		add(len(w.toD) > 0, "repeat")
	}
	return acts
}

func (w *world) act(name string, faults *int) {
	switch name {
	case "time":
		w.tick(w.now + rapid.Int64Range(1, 15).Draw(w.t, "pass"))
	case "connect":
		w.conn = connUp
		w.recv.Step(w.now, PeerUp{Peer: lifeP})
	case "start":
		end := rapid.IntRange(w.cursor+1, w.prompt).Draw(w.t, "end")
		w.computing = &kvcache.Chunk{Start: w.cursor, End: end, First: w.cursor == 0, Last: end == w.prompt}
		w.through = 0
		w.send.Step(w.now, ChunkStarted{Chunk: *w.computing, Tables: w.tables})
	case "layers":
		w.tell()
	case "compute":
		w.compute(nil)
	case "land":
		w.land(rapid.SampledFrom(w.flights).Draw(w.t, "flight"))
	case "ack":
		w.ack(rapid.IntRange(0, len(w.acks)-1).Draw(w.t, "which"))
	case "to P":
		w.deliverToP()
	case "to D", "repeat":
		w.deliverToD(rapid.IntRange(0, len(w.toD)-1).Draw(w.t, "which"), name == "repeat")
	case "revoked":
		w.revoked = true
		w.recv.Step(w.now, Revoked{})
	default:
		*faults--
		w.fault(name)
	}
}

func (w *world) fault(name string) {
	switch name {
	case "cancel P":
		w.send.Step(w.now, Cancel{Cause: ErrCancelled})
	case "cancel D":
		w.recv.Step(w.now, Cancel{Cause: ErrCancelled})
	case "lose":
		w.lose()
	case "unreachable":
		w.conn = connLost
		w.recv.Step(w.now, Unreachable{Err: errLine})
	case "pass fails":
		w.compute(errGPU)
	case "copy fails":
		f := rapid.SampledFrom(w.flights).Draw(w.t, "flight")
		w.remove(f)
		w.send.Step(w.now, Copied{Slice: f.copy.Slice, Err: errLine})
	}
}

// endWell lets everything that can happen happen, and time pass when nothing can.
func (w *world) endWell() {
	none := 0
	for range 2000 {
		if w.over() {
			return
		}
		acts := w.enabled(false)
		if len(acts) > 1 {
			w.act(acts[1], &none)
		} else {
			w.pass("nothing can happen")
		}
		w.observe()
	}
	w.t.Fatalf("it does not end: %v", w)
}

// endStuck moves nothing on the wire any more. Passes end, and the agent closes epochs; what
// the deadlines then leave open ends with the peer's life.
func (w *world) endStuck() {
	none := 0
	for range 2000 {
		if w.over() {
			return
		}
		here := []string{"start", "compute", "revoked"}
		acts := w.enabled(false)
		if i := slices.IndexFunc(acts, func(a string) bool { return slices.Contains(here, a) }); i >= 0 {
			w.act(acts[i], &none)
		} else if w.deadline() == Never && w.conn == connUp {
			if len(w.flights) > 0 {
				w.t.Fatalf("copies are stuck and nobody does anything: %v", w)
			}
			w.lose()
		} else {
			w.pass("the wire is stuck")
		}
		w.observe()
	}
	w.t.Fatalf("it does not end: %v", w)
}

// pass waits for the next deadline; there must be one.
func (w *world) pass(why string) {
	d := w.deadline()
	if d == Never {
		w.t.Fatalf("%s and there is no deadline: %v", why, w)
	}
	w.tick(max(w.now, d))
}
