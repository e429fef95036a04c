// Package fault decorates an agent with the faults of a bad link: a low rate, delays, lost
// notices, failing transfers, dropped peers, a link that stalls. A script decides, seeded or
// written out, so that a run can be had again.
package fault

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/agent/event"
	"kvferry/wire"
)

// Options of a decorator. The zero value has no faults.
type Options struct {
	// Rate is how many bytes a second the transfers with one peer share, in the order in
	// which they were asked for; 0 is no limit. A transfer is passed on when its last byte
	// would have arrived, so its bytes land, its notice comes and its Done follows then.
	Rate int64
	// Delay is how long every transfer takes besides.
	Delay time.Duration
	// Script, when not nil, decides on every operation.
	Script Script
}

// Agent is the decorator.
type Agent struct {
	agent.Agent
	o      Options
	events *event.Queue

	mu      sync.Mutex
	links   map[wire.Life]*link
	stalled bool
	closed  bool
	passed  passed
}

var _ agent.Agent = (*Agent)(nil)

// errDropped is why a script's drop loses the peer.
var errDropped = errors.New("fault: the script drops the peer")

// New decorates an agent, which must not be used otherwise from now on.
func New(inner agent.Agent, o Options) *Agent {
	a := &Agent{
		Agent: inner, o: o, events: event.NewQueue(), links: make(map[wire.Life]*link), passed: newPassed(),
	}
	go a.relay()
	return a
}

// Events has the inner agent's events, and the ends of transfers that never got there.
func (a *Agent) Events() <-chan agent.Event { return a.events.Events() }

// Stall holds everything that is not yet passed on, until Resume.
func (a *Agent) Stall() { a.stall(true) }

// Resume ends a stall.
func (a *Agent) Resume() { a.stall(false) }

func (a *Agent) stall(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stalled = on
	for _, l := range a.links {
		l.poke()
	}
}

// Write passes a write on when the link has moved it.
func (a *Agent) Write(t agent.Transfer) { a.transfer(Write, t, a.Agent.Write) }

// Read passes a read on likewise.
func (a *Agent) Read(t agent.Transfer) { a.transfer(Read, t, a.Agent.Read) }

func (a *Agent) transfer(k Kind, t agent.Transfer, pass func(agent.Transfer)) {
	n, err := size(&t)
	a.mu.Lock()
	l := a.links[t.Peer]
	if l == nil || err != nil {
		// The inner agent says what is wrong.
		a.mu.Unlock()
		pass(t)
		return
	}
	defer a.mu.Unlock()
	act := l.decide(k, n)
	if act.LoseNotice {
		t.Notice = nil
	}
	run := func() {
		switch {
		case act.Drop:
			a.fail(k, &t, errDropped)
			a.Drop(t.Peer, errDropped)
		case act.Fail != nil:
			a.fail(k, &t, act.Fail)
		default:
			a.began(&t)
			pass(t)
		}
	}
	takes := a.took(n) + a.o.Delay + act.Delay
	l.bulk.add(takes, run, func(err error) { a.fail(k, &t, err) })
}

// Notify passes a notice on, past all transfers.
func (a *Agent) Notify(peer wire.Life, payload []byte) {
	a.mu.Lock()
	l := a.links[peer]
	if l == nil {
		a.mu.Unlock()
		a.Agent.Notify(peer, payload)
		return
	}
	defer a.mu.Unlock()
	act := l.decide(Notify, uint64(len(payload)))
	payload = bytes.Clone(payload) // the caller's is its own again when we return
	run := func() {
		switch {
		case act.Drop:
			a.Drop(peer, errDropped)
		case act.Fail == nil && !act.LoseNotice:
			a.Agent.Notify(peer, payload)
		}
	}
	l.control.add(act.Delay, run, func(error) {})
}

// took is how long the link takes for so many bytes.
func (a *Agent) took(bytes uint64) time.Duration {
	if a.o.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(a.o.Rate) * float64(time.Second))
}

// size is how many bytes a transfer moves, if its indices are within its lists.
func size(t *agent.Transfer) (uint64, error) {
	for _, i := range t.LocalIdx {
		if i < 0 || int(i) >= len(t.Local) {
			return 0, agent.ErrBadTransfer
		}
	}
	return cut.Bytes(t), nil
}

func (a *Agent) fail(k Kind, t *agent.Transfer, cause error) {
	err := &agent.Error{Op: string(k), Peer: t.Peer, Transfer: t.ID, Cause: cause}
	a.events.Push(agent.Done{ID: t.ID, Err: err})
}

func (a *Agent) began(t *agent.Transfer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passed.add(t.ID, t.Peer)
}

func (a *Agent) isStalled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stalled
}

// Close ends what is held with an error, and then the inner agent.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	links := a.links
	a.links = make(map[wire.Life]*link)
	a.mu.Unlock()
	for _, l := range links {
		l.end(agent.Lost(agent.ErrClosed))
	}
	return a.Agent.Close(ctx)
}
