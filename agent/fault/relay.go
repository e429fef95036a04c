package fault

import (
	"errors"

	"kvferry/agent"
	"kvferry/wire"
)

// passed is the transfers that the inner agent has and has not ended, by ID, and their number
// by peer.
type passed struct {
	peer  map[uint64]wire.Life
	count map[wire.Life]int
}

func newPassed() passed {
	return passed{peer: make(map[uint64]wire.Life), count: make(map[wire.Life]int)}
}

func (p *passed) add(id uint64, peer wire.Life) {
	p.peer[id] = peer
	p.count[peer]++
}

// remove says whether the transfer was there.
func (p *passed) remove(id uint64) bool {
	peer, ok := p.peer[id]
	if !ok {
		return false
	}
	delete(p.peer, id)
	if p.count[peer]--; p.count[peer] == 0 {
		delete(p.count, peer)
	}
	return true
}

// relay passes the inner agent's events on. A transfer may be passed on just when its peer is
// lost, and then the inner agent ends it after PeerLost; so PeerLost, and what comes after
// it, waits for those.
func (a *Agent) relay() {
	defer a.events.Close()
	var waiting []agent.Event
	for e := range a.Agent.Events() {
		switch e := e.(type) {
		case agent.Done:
			a.events.Push(a.ended(e))
		case agent.PeerLost:
			a.lost(e)
			waiting = append(waiting, e)
		case agent.PeerUp:
			a.up(e.Hello.Life)
			waiting = append(waiting, e)
		default:
			waiting = append(waiting, e)
		}
		for len(waiting) > 0 && !a.mustWait(waiting[0]) {
			a.events.Push(waiting[0])
			waiting = waiting[1:]
		}
	}
}

// ended forgets a transfer. One that came to the inner agent too late to find its peer was in
// flight for the caller, so it is lost with the peer.
func (a *Agent) ended(d agent.Done) agent.Done {
	a.mu.Lock()
	known := a.passed.remove(d.ID)
	a.mu.Unlock()
	var e *agent.Error
	if known && errors.Is(d.Err, agent.ErrUnknownPeer) && errors.As(d.Err, &e) {
		lost := *e
		lost.Cause = agent.Lost(e.Cause)
		d.Err = &lost
	}
	return d
}

func (a *Agent) mustWait(e agent.Event) bool {
	lost, ok := e.(agent.PeerLost)
	a.mu.Lock()
	defer a.mu.Unlock()
	return ok && a.passed.count[lost.Peer] > 0
}

// up begins to hold what is for the peer, before the caller knows that it is up.
func (a *Agent) up(peer wire.Life) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.links[peer] == nil && !a.closed {
		a.links[peer] = newLink(peer, a.o.Script, a.isStalled)
	}
}

// lost fails what is held for the peer.
func (a *Agent) lost(e agent.PeerLost) {
	a.mu.Lock()
	l := a.links[e.Peer]
	delete(a.links, e.Peer)
	a.mu.Unlock()
	if l != nil {
		l.end(agent.Lost(e.Err))
	}
}
