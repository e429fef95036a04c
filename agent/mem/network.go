// Package mem is a transfer agent inside one process: its peers are the agents of one
// Network. It means what agent/tcp means, byte for byte and event for event, and uses no
// net, so that it runs under testing/synctest.
package mem

import (
	"errors"
	"fmt"
	"sync"

	"kvferry/agent"
	"kvferry/wire"
)

// Network is where agents find each other by address. Make it with NewNetwork.
type Network struct {
	// mu guards the tables of all agents of the network.
	mu     sync.Mutex
	agents map[string]*Agent
	minted int
}

// NewNetwork makes a network without agents.
func NewNetwork() *Network { return &Network{agents: make(map[string]*Agent)} }

// listen enters an agent. An empty address is replaced by a new one.
func (w *Network) listen(a *Agent, addr string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for given := addr; given == "" && (addr == "" || w.agents[addr] != nil); {
		w.minted++
		addr = fmt.Sprint("mem:", w.minted)
	}
	if w.agents[addr] != nil {
		return "", fmt.Errorf("mem: address %s is in use", addr)
	}
	w.agents[addr] = a
	return addr, nil
}

func (w *Network) leave(a *Agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.agents[a.addr] == a {
		delete(w.agents, a.addr)
	}
}

// errNobody is why Connect fails where no agent has the address.
var errNobody = errors.New("nobody listens there")

// connect makes the pair of a and who listens at addr, or finds it, and tells that it is up.
// Where the pair is ending, it gives what to wait for.
func (w *Network) connect(a *Agent, addr string) (ending <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.agents[addr]
	switch {
	case a.closed:
		return nil, agent.ErrClosed
	case b == nil || b.closed:
		return nil, errNobody
	case b.hello.Life == a.hello.Life:
		return nil, agent.ErrSelf
	}
	if err := a.hello.Identity.Check(b.hello.Identity); err != nil {
		return nil, err
	}
	if e := a.ends[b.hello.Life]; e != nil {
		if e.pair.isEnding() {
			return e.pair.gone, nil
		}
		a.events.Push(agent.PeerUp{Addr: addr, Hello: b.hello})
		return nil, nil
	}
	p := newPair(a, b)
	a.ends[b.hello.Life], b.ends[a.hello.Life] = p.ends[0], p.ends[1]
	a.events.Push(agent.PeerUp{Addr: addr, Hello: b.hello})
	b.events.Push(agent.PeerUp{Hello: a.hello})
	p.start()
	return nil, nil
}

// part takes a pair out of both tables and tells both that the other is lost.
func (w *Network) part(p *pair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range p.ends {
		peer := p.ends[1-i].a.hello.Life
		delete(e.a.ends, peer)
		e.a.events.Push(agent.PeerLost{Peer: peer, Err: &agent.Error{
			Op: "connection", Peer: peer, Addr: p.ends[1-i].a.addr, Cause: agent.Lost(p.causeFor(e)),
		}})
	}
	close(p.gone)
}

// end is the agent's end of its pair with a peer, or nil.
func (w *Network) end(a *Agent, peer wire.Life) *end {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.ends[peer]
}

// allEnds marks an agent closed, so that no further pair is made, and gives its ends.
func (w *Network) allEnds(a *Agent) []*end {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.closed = true
	var es []*end
	for _, e := range a.ends {
		es = append(es, e)
	}
	return es
}
