package sim

import (
	"cmp"
	"fmt"
	"slices"

	"kvferry/engine"
	"kvferry/transfer"
	"kvferry/wire"
)

// Transition is one step of one machine: where its session stood, what happened, and where it
// stood then.
type Transition struct{ Machine, From, Event, To string }

func (t Transition) String() string {
	return fmt.Sprintf("%s: %s --%s--> %s", t.Machine, t.From, t.Event, t.To)
}

func (t Transition) compare(o Transition) int {
	return cmp.Or(
		cmp.Compare(t.Machine, o.Machine), cmp.Compare(t.From, o.From),
		cmp.Compare(t.Event, o.Event), cmp.Compare(t.To, o.To),
	)
}

// The machines: the sessions name themselves so, and requestMachine is an engine's compute
// phase of a request. nowhere is where one stands that is not there.
const (
	sendMachine    = "send"
	receiveMachine = "receive"
	requestMachine = "request"
	offerMachine   = "offer"
	pullMachine    = "pull"
	leaseMachine   = "lease" // has no states: what is counted of leases
	nowhere        = "-"
)

// Coverage counts how often each transition was taken.
type Coverage struct{ counts map[Transition]int }

func newCoverage() *Coverage { return &Coverage{counts: map[Transition]int{}} }

// Add adds another run's counts.
func (c *Coverage) Add(o *Coverage) {
	for t, n := range o.counts {
		c.counts[t] += n
	}
}

// Count is how often a transition was taken.
func (c *Coverage) Count(t Transition) int { return c.counts[t] }

// Taken lists every transition that was taken, in order.
func (c *Coverage) Taken() []Transition {
	var out []Transition
	for t := range c.counts {
		out = append(out, t)
	}
	slices.SortFunc(out, Transition.compare)
	return out
}

// Untaken lists the declared transitions that were never taken.
func (c *Coverage) Untaken() []Transition {
	return slices.DeleteFunc(Transitions(), func(t Transition) bool { return c.counts[t] > 0 })
}

// Undeclared lists the moves that were taken and should not exist.
func (c *Coverage) Undeclared() []Transition {
	declared := Transitions()
	return slices.DeleteFunc(c.Taken(), func(t Transition) bool {
		return t.From == t.To || slices.Contains(declared, t)
	})
}

// watch counts a step of a session.
func (w *world) watch(s engine.Watched) {
	from := s.From
	if from == "" {
		from = nowhere
	}
	w.cover.counts[Transition{s.Machine, from, eventName(s), s.To}]++
}

// eventName names what happened to a session.
func eventName(s engine.Watched) string {
	switch ev := s.Event.(type) {
	case nil:
		if s.From == "" {
			return "made"
		}
		return "timer"
	case transfer.ChunkStarted:
		return "pass"
	case transfer.ChunkComputed:
		switch {
		case ev.Err != nil:
			return "pass failed"
		case ev.Chunk.Last:
			return "last chunk"
		}
		return "chunk"
	case transfer.Copied:
		if ev.Err != nil {
			return "copy failed"
		}
		return "copied"
	case transfer.ReadDone:
		if ev.Err != nil {
			return "read failed"
		}
		return "read"
	case transfer.SlotRead:
		if ev.Err != nil {
			return "slot read failed"
		}
		return "slot read"
	case transfer.Announced:
		if ev.Msg.Last {
			return "last announced"
		}
		return "announced"
	case transfer.Completed:
		if ev.Status == wire.StatusOK {
			return "completed"
		}
		return "given up"
	case transfer.ResultCame:
		switch {
		case ev.Msg.Status == wire.StatusOK:
			return "result"
		case ev.Msg.Last:
			return "end"
		}
		return "failure"
	}
	return plainEvents[fmt.Sprintf("%T", s.Event)]
}

// noteName names what is counted of leases.
func noteName(o engine.Noted) string {
	name := map[engine.Note]string{
		engine.LeasesRenewed: "renewed", engine.LeaseExpired: "expired", engine.CompleteIgnored: "complete ignored",
		engine.LoadFailed: "load failed", engine.TurnPulled: "turn pulled", engine.TurnMissed: "turn missed",
	}[o.What]
	if o.Reason != "" {
		name += ", " + o.Reason
	}
	return name
}

// plainEvents are the events that are named by their type alone.
var plainEvents = map[string]string{
	"transfer.Registered":     "register",
	"transfer.LayersComputed": "layers",
	"transfer.TakenBack":      "taken back",
	"transfer.Withdrawn":      "withdraw",
	"transfer.PeerGone":       "peer lost",
	"transfer.Cancel":         "cancel",
	"transfer.PeerUp":         "peer up",
	"transfer.Unreachable":    "unreachable",
	"transfer.ProgressCame":   "progress",
	"transfer.Verified":       "verified",
	"transfer.Revoked":        "revoked",
	"transfer.PullReady":      "ready",
	"transfer.LeaseRefused":   "refused",
	"transfer.Expired":        "expired",
	"transfer.Slotted":        "slotted",
	"transfer.Claimed":        "claimed",
}

// observe counts how the engine's requests moved in a step.
func (p *proc) observe(held []engine.Held) {
	for _, h := range held {
		p.moved(h.Request, stateOf(p.held, h.Request), h.State)
	}
	for _, was := range p.held {
		if stateOf(held, was.Request) == nowhere {
			p.moved(was.Request, was.State, "gone")
		}
	}
	p.held = held
}

func (p *proc) moved(id, was, is string) {
	if was != is {
		p.w.cover.counts[Transition{requestMachine, was, "", is}]++
		p.w.trace.state(p.node, id, was, p.w.now)
	}
}

func stateOf(list []engine.Held, id string) string {
	for _, h := range list {
		if h.Request == id {
			return h.State
		}
	}
	return nowhere
}

// checkCommitted looks that the record is complete before the last slice leaves. // PIPE-15
func (p *proc) checkCommitted(o engine.Copy) {
	for _, h := range p.held {
		if o.Notice == nil || h.Request != o.Notice.Request || h.Send == nil || !o.Notice.Last {
			continue
		}
		if ph := h.Send.Phase(); ph != "finishing" && ph != "draining complete" {
			p.w.fail("commit first", "%s copies the last slice of %s while it is %s", p.node.name, h.Request, ph)
		}
	}
}
