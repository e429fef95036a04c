package transfer

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNoWrongByteIsPulled joins a reader with an offer, or with a send that announces, and lets the
// lease lapse at any instant, before, during and after the read: expired, given up, withdrawn, or
// preempted before anything was promised. Blocks are overwritten the instant they are free. With
// verification no wrong token is ever given out; without it the same world gives some out, so it is
// the proof that keeps them back.
//
// It checks as well that either side's blocks are given back once and never while something uses
// them, that the slots are looked at after the last read of all ranks, that each side's one
// outcome stands, and that deadlines and the lease's end bring all of it to an end.
//
// req: LEASE-14
// req: LEASE-15
// req: LEASE-17
// req: LEASE-18
// req: LEASE-22
// req: LEASE-25
// case: 01
func TestNoWrongByteIsPulled(t *testing.T) {
	for name, verify := range map[string]bool{"verified": true, "unverified": false} {
		t.Run(name, func(t *testing.T) {
			var pulled, lapsed, corrupt int
			for range 20 {
				rapid.Check(t, func(t *rapid.T) {
					w := newReadWorld(t, verify)
					w.anything()
					switch {
					case w.corrupt && verify:
						t.Fatalf("wrong tokens were pulled: %v", w)
					case w.corrupt:
						corrupt++
					case w.pullEnd == "pulled":
						pulled++
					case w.lapsed:
						lapsed++
					}
				})
			}
			t.Logf("%d pulled, %d lapsed, %d corrupt", pulled, lapsed, corrupt)
			if pulled == 0 || (lapsed > 0) != verify || (corrupt > 0) == verify {
				t.Errorf("%d were pulled right, %d wrong, and %d had lapsed", pulled, corrupt, lapsed)
			}
		})
	}
}

func (w *readWorld) anything() {
	faults, none := rapid.IntRange(0, 3).Draw(w.t, "faults"), 0
	if until := rapid.SampledFrom([]string{"", "", "waiting", "reading", "reading", "reading", "verifying"}).Draw(w.t, "until"); until != "" {
		for range 100 { // what may go wrong does so around the read
			acts := w.enabled(false)
			if len(acts) == 1 || w.pull != nil && w.pull.Phase() == until {
				break
			}
			w.act(acts[1], &none)
			w.observe()
		}
		faults++
	}
	for range rapid.IntRange(0, 60).Draw(w.t, "steps") {
		w.act(rapid.SampledFrom(w.enabled(faults > 0)).Draw(w.t, "action"), &faults)
		w.observe()
	}
	for range 2000 {
		if w.over() {
			return
		}
		acts := w.enabled(false)
		switch {
		case len(acts) > 1:
			w.act(acts[1], &none)
		case w.deadline() < Never:
			w.tick(max(w.now, w.deadline()))
		default:
			w.holder(Expired{}) // nobody renews any more
		}
		w.observe()
	}
	w.t.Fatalf("it does not end: %v", w)
}

// enabled are the things that can happen now, in an order that does not change.
func (w *readWorld) enabled(faults bool) []string {
	acts := []string{"time"}
	add := func(ok bool, names ...string) {
		if ok {
			acts = append(acts, names...)
		}
	}
	computing := w.passing != nil
	add(w.pull != nil && w.conn == connNone, "connect")
	add(!computing && w.cursor < w.prompt && !w.holderEnded(), "start", "start")
	add(computing, "compute", "compute")
	add(len(w.flights) > 0, "read", "read", "read")
	add(len(w.checks) > 0, "look", "look")
	add(len(w.toP) > 0, "to P")
	add(len(w.toD) > 0, "to D", "to D")
	if faults {
		add(true, "cancel P")
		add(!computing, "expire", "expire")
		add(len(w.flights) > 0, "expire", "expire", "expire")
		add(w.cursor > 0 && w.cursor < w.prompt && !w.holderUses() && !w.holderEnded(), "preempt")
		add(w.pull != nil, "cancel D", "refuse")
		add(w.conn == connUp, "lose")
		add(w.pull != nil && w.conn == connNone, "unreachable")
		add(computing, "pass fails")
		add(len(w.flights) > 0, "read fails")
		add(len(w.checks) > 0, "look fails")
		add(len(w.toD) > 0, "repeat")
	}
	return acts
}

func (w *readWorld) act(name string, faults *int) {
	switch name {
	case "time":
		w.tick(w.now + rapid.Int64Range(1, 8).Draw(w.t, "pass"))
	case "connect":
		w.conn = connUp
		w.pull.Step(w.now, PullReady{Peer: lifeP, PoolBlocks: pools(w.layout), Slots: pullSlot + 1, Ranks: w.ranks})
	case "start":
		w.start()
	case "compute":
		w.compute(nil)
	case "read":
		w.land(rapid.SampledFrom(w.flights).Draw(w.t, "flight"))
	case "look":
		w.look(rapid.SampledFrom(w.checks).Draw(w.t, "slot"))
	case "to P":
		w.deliverToP()
	case "to D", "repeat":
		w.deliverToD(rapid.IntRange(0, len(w.toD)-1).Draw(w.t, "which"), name == "repeat")
	default:
		*faults--
		w.fault(name)
	}
}

func (w *readWorld) fault(name string) {
	switch name {
	case "cancel P":
		w.holder(Cancel{Cause: ErrCancelled})
	case "expire":
		w.holder(Expired{})
	case "preempt":
		w.preempt()
	case "cancel D":
		w.pull.Step(w.now, Cancel{Cause: ErrCancelled})
	case "refuse":
		w.pull.Step(w.now, LeaseRefused{Reason: "consumed"})
	case "lose":
		w.lose()
	case "unreachable":
		w.conn = connLost
		w.pull.Step(w.now, Unreachable{Err: errLine})
	case "pass fails":
		w.compute(errGPU)
	case "read fails":
		w.endRead(rapid.SampledFrom(w.flights).Draw(w.t, "flight"), errLine)
	case "look fails":
		w.endCheck(rapid.SampledFrom(w.checks).Draw(w.t, "slot"), errLine)
	}
}
