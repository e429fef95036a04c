package engine

import (
	"fmt"
	"testing"

	"kvferry/transfer"
	"kvferry/wire"
)

// flood is a prefill engine with a peer that is up, its outputs taken.
func flood(t *testing.T) *Engine {
	e, err := New(goodConfig())
	if err != nil {
		t.Fatal(err)
	}
	e.Step(0, PeerUp{Peer: life("D"), PoolBlocks: []int{16}})
	return e
}

func registerOf(id string) Message {
	return Message{Peer: life("D"), Msg: &wire.Register{
		Request: id, Epoch: 1, PromptLen: 4, TokenHash: wire.TokenHash(tokensOf(4)), Blocks: [][]int32{{0}},
	}}
}

// lastStatus is the status of the last result that the engine sent.
func lastStatus(e *Engine) wire.Status {
	status := wire.Status(0)
	for _, o := range e.Outputs() {
		if n, ok := o.(transfer.Notify); ok {
			status = n.Msg.(*wire.Result).Status
		}
	}
	return status
}

// TestParkedAreBounded: a peer that registers without end is refused, and nothing of it
// stays.
//
// req: PIPE-13
func TestParkedAreBounded(t *testing.T) {
	e := flood(t)
	for i := range maxParked {
		e.Step(0, registerOf(fmt.Sprint("r", i)))
		if s := lastStatus(e); s != 0 {
			t.Fatalf("registration %d was answered %s", i, s)
		}
	}
	e.Step(0, registerOf("one more"))
	if s := lastStatus(e); s != wire.StatusFailed {
		t.Errorf("one more was answered %s", s)
	}
	if n := e.Counts().Parked; n != maxParked {
		t.Errorf("%d are parked, want %d", n, maxParked)
	}
	e.Tick(e.Deadline())
	if c := e.Counts(); c.Parked != 0 || len(e.Outputs()) != maxParked {
		t.Errorf("%d are parked after their time, and not each was answered", c.Parked)
	}
	if e.Deadline() != transfer.Never {
		t.Errorf("an empty engine wakes at %d", e.Deadline())
	}
}

// TestTombstonesAreBounded: the oldest is forgotten first, and one ID takes one place.
//
// req: PIPE-13
func TestTombstonesAreBounded(t *testing.T) {
	e := flood(t)
	dead := func(id string) { e.Step(0, Submit{Request{ID: id, Leg: PrefillLeg}}) } // an empty prompt
	gone := func(id string) bool {
		e.Outputs()
		e.Step(0, registerOf(id))
		return lastStatus(e) == wire.StatusGone
	}
	for range 3 {
		dead("first")
	}
	for i := range maxTombstones - 1 {
		dead(fmt.Sprint("r", i))
	}
	if !gone("first") {
		t.Error("the first is forgotten before its time")
	}
	dead("last")
	if gone("first") || !gone("r0") || !gone("last") {
		t.Error("not the first alone was forgotten")
	}
	if len(e.send.ended) != maxTombstones || len(e.send.graves) != maxTombstones {
		t.Errorf("%d tombstones in %d graves, want %d", len(e.send.ended), len(e.send.graves), maxTombstones)
	}
}

// TestEndedKeepsNothing: a timer outlives its request, and must not keep the prompt, the
// sessions or the messages.
func TestEndedKeepsNothing(t *testing.T) {
	e := flood(t)
	e.Step(0, registerOf("a"))
	e.Step(0, Submit{Request{ID: "a", Leg: PrefillLeg, Tokens: tokensOf(4), MaxTokens: 1}})
	e.Step(0, Abort{ID: "a", Cause: transfer.ErrCancelled})
	e.Step(0, Computed{Results: []Sampled{{}}})
	if len(e.timers.h) == 0 || len(e.send.order) == 0 {
		t.Fatal("no timer is left, so this shows nothing")
	}
	for _, entry := range e.timers.h {
		s := entry.seq
		if s.req.Tokens != nil || s.send != nil || s.hold != nil || s.output != nil {
			t.Errorf("a timer keeps %+v", s)
		}
	}
	if len(e.send.parked) != 0 {
		t.Errorf("parked are %v", e.send.parked)
	}
	for e.Deadline() != transfer.Never {
		e.Tick(e.Deadline())
	}
	if len(e.timers.h)+len(e.send.order) != 0 {
		t.Error("timers are left after their time")
	}
}

// TestOfferedAreBounded: finished prefills are remembered while nobody has registered for them,
// and not for longer, though no pool ever runs short.
//
// req: PIPE-35
func TestOfferedAreBounded(t *testing.T) {
	e := flood(t)
	for i := range 100 {
		id := fmt.Sprint("r", i)
		e.Step(0, Submit{Request{ID: id, Leg: PrefillLeg, Tokens: tokensOf(4), MaxTokens: 1}})
		e.Step(0, Computed{Results: []Sampled{{}}})
		e.Step(0, registerOf(id))
		e.Step(0, CopyDone{ID: uint64(i + 1)})
		if n := len(e.send.offered); n > 1 || e.Counts().Send != 0 {
			t.Fatalf("after %d requests that ended, %d are remembered and %d send", i+1, n, e.Counts().Send)
		}
	}
}
