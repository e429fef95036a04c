package choose

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// peer is a life that the base has a connection with, or had until a moment ago.
type peer struct {
	hello wire.Hello
	addrs []string // that Connect was given, until up
	links []bool   // by agent: which connections are up
	// untried are what the peer offers that we have too, of the side that chooses: the agents'
	// indices, with where the peer's are. The first is being connected.
	untried []attempt
	judged  bool // data is decided; it may not be connected yet
	data    int  // the index of the agent that moves the bytes
	up      bool
	held    []agent.Notice // came before up
	// ending says that PeerLost follows when no connection is up any more; then what came of a
	// new one in the meantime is gone through.
	ending bool
	cause  error
	again  []agent.Event // of the base
}

type attempt struct {
	agent int
	addr  string
}

// The reasons why connections are ended.
var (
	errStray     = errors.New("choose: a connection beside the base's, of a peer that the base does not know")
	errFate      = errors.New("choose: another connection with the peer is lost")
	errNotChosen = errors.New("choose: another agent was chosen")
)

// event takes what agent i says.
func (a *Agent) event(i int, e agent.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := e.(type) {
	case agent.Done:
		a.events.Push(agent.Done{ID: e.ID, Err: lostOf(e.Err)})
	case agent.Revoked:
		if a.revoked[e.Epoch]--; a.revoked[e.Epoch] <= 0 {
			delete(a.revoked, e.Epoch)
			a.events.Push(e)
		}
	case agent.PeerLost:
		a.lost(i, e)
	default:
		if i == 0 {
			a.ofBase(e)
		} else {
			a.ofFast(i, e)
		}
	}
}

// lostOf is an agent's error as ours. What it did not know was a peer that is up here: one that it
// has lost, and not told of yet.
func lostOf(err error) error {
	var e *agent.Error
	if !errors.Is(err, agent.ErrUnknownPeer) || !errors.As(err, &e) {
		return err
	}
	lost := *e
	lost.Cause = agent.Lost(e.Cause)
	return &lost
}

// ofBase takes what the base says of connections and notices.
func (a *Agent) ofBase(e agent.Event) {
	switch e := e.(type) {
	case agent.ConnectFailed:
		delete(a.retries, e.Addr)
		a.events.Push(e)
	case agent.PeerUp:
		p := a.peers[e.Hello.Life]
		switch {
		case p == nil:
			a.greet(e)
		case p.ending:
			p.again = append(p.again, e)
		case p.up:
			a.events.Push(e)
		default:
			p.addrs = append(p.addrs, e.Addr)
		}
	case agent.Notice:
		p := a.peers[e.Peer]
		switch {
		case p == nil:
		case p.ending && len(p.again) > 0:
			p.again = append(p.again, e)
		case bytes.HasPrefix(e.Payload, magic):
			a.hear(e.Peer, p, e.Payload)
		default:
			a.tell(p, e)
		}
	}
}

// ofFast takes what a fast agent says of connections and notices.
func (a *Agent) ofFast(i int, e agent.Event) {
	switch e := e.(type) {
	case agent.ConnectFailed:
		for life, p := range a.peers {
			if len(p.untried) > 0 && p.untried[0] == (attempt{i, e.Addr}) {
				a.log.Info("a faster way to a peer does not come up", "agent", a.all[i].Name, "peer", life, "err", e.Err)
				p.untried = p.untried[1:]
				a.try(life, p)
				return
			}
		}
	case agent.PeerUp:
		p := a.peers[e.Hello.Life]
		switch {
		case p == nil:
			a.all[i].Agent.Drop(e.Hello.Life, errStray)
			return
		case p.ending:
			a.all[i].Agent.Drop(e.Hello.Life, errFate)
		}
		p.links[i] = true
		a.settle(e.Hello.Life, p)
	case agent.Notice:
		if p := a.peers[e.Peer]; p != nil {
			a.tell(p, e)
		}
	}
}

// tell gives a notice on, but none before its PeerUp.
func (a *Agent) tell(p *peer, n agent.Notice) {
	if !p.up {
		p.held = append(p.held, n)
		return
	}
	a.events.Push(n)
}

// greet begins with a peer that the base has come to know.
func (a *Agent) greet(e agent.PeerUp) {
	p := &peer{hello: e.Hello, addrs: []string{e.Addr}, links: make([]bool, len(a.all))}
	p.links[0] = true
	a.peers[e.Hello.Life] = p
	var offer []offered
	for _, n := range a.all[1:] {
		offer = append(offer, offered{n.Name, n.Agent.Addr()})
	}
	a.base().Notify(e.Hello.Life, encodeOffer(offer))
}

// hear takes an offer or a verdict.
func (a *Agent) hear(life wire.Life, p *peer, payload []byte) {
	m, err := decode(payload)
	chooses := bytes.Compare(a.own[:], life[:]) < 0
	switch {
	case err != nil:
	case m.isOffer && (p.judged || p.untried != nil || !chooses):
		// not the first one, or for the other side to choose from
	case m.isOffer:
		a.match(p, m.offer)
		a.try(life, p)
	case chooses || p.judged:
		err = fmt.Errorf("%w: a verdict is not awaited", errMessage)
	default:
		for i, n := range a.all {
			if n.Name == m.verdict {
				p.data, p.judged = i, true
				a.settle(life, p)
				return
			}
		}
		err = fmt.Errorf("%w: the verdict is %q, which we do not have", errMessage, m.verdict)
	}
	if err != nil {
		a.base().Drop(life, err)
	}
}

// match lists what both have, the fastest first.
func (a *Agent) match(p *peer, offer []offered) {
	p.untried = []attempt{}
	for i, n := range a.all[1:] {
		for _, o := range offer {
			if o.name == n.Name {
				p.untried = append(p.untried, attempt{i + 1, o.addr})
				break
			}
		}
	}
}

// try connects by the next that both have, or settles for the base.
func (a *Agent) try(life wire.Life, p *peer) {
	switch {
	case p.ending || p.judged:
	case len(p.untried) > 0:
		next := p.untried[0]
		a.all[next.agent].Agent.Connect(next.addr)
	default:
		a.judge(life, p, 0)
	}
}

func (a *Agent) judge(life wire.Life, p *peer, i int) {
	p.data, p.judged = i, true
	a.base().Notify(life, encodeVerdict(a.all[i].Name))
	a.settle(life, p)
}

// settle says that the peer is up, if it is decided what is used and that is connected.
func (a *Agent) settle(life wire.Life, p *peer) {
	if len(p.untried) > 0 && !p.judged && p.links[p.untried[0].agent] {
		a.judge(life, p, p.untried[0].agent) // and comes back here
		return
	}
	if p.ending || p.up || !p.judged || !p.links[p.data] {
		return
	}
	p.up = true
	a.log.Info("a peer is up", "peer", life, "role", p.hello.Role, "agent", a.all[p.data].Name)
	for i := range p.links {
		if i != 0 && i != p.data && p.links[i] {
			a.all[i].Agent.Drop(life, errNotChosen)
		}
	}
	for _, addr := range p.addrs {
		delete(a.retries, addr)
		a.events.Push(agent.PeerUp{Addr: addr, Hello: p.hello})
	}
	for _, n := range p.held {
		a.events.Push(n)
	}
	p.addrs, p.held = nil, nil
}

// lost takes the end of one connection, which is the end of all.
func (a *Agent) lost(i int, e agent.PeerLost) {
	p := a.peers[e.Peer]
	switch {
	case p == nil:
		return
	case !p.links[i]:
		if i == 0 && len(p.again) > 0 {
			p.again = append(p.again, e)
		}
		return
	}
	p.links[i] = false
	if !p.ending && (i == 0 || p.judged && i == p.data) {
		p.ending, p.cause = true, e.Err
		if a.closing && !errors.Is(e.Err, agent.ErrClosed) { // the peer's other agents were faster than ours
			p.cause = &agent.Error{Op: "connection", Peer: e.Peer, Cause: agent.Lost(agent.ErrClosed)}
		}
		a.share(e.Peer, p, i == 0)
	}
	if p.ending {
		a.bury(e.Peer, p)
	}
}

// grace is how long the base may outlive a faster connection: where the peer ended both, the base's
// end is on its way, and to drop the base now could hit its next connection.
const grace = 100 * time.Millisecond

// share ends a peer's other connections: the fast ones now, the base when its grace is over.
func (a *Agent) share(life wire.Life, p *peer, now bool) {
	for j, up := range p.links {
		if up && (j > 0 || now) {
			a.all[j].Agent.Drop(life, fmt.Errorf("%w: %w", errFate, p.cause))
		}
	}
	if now {
		return
	}
	time.AfterFunc(grace, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.peers[life] == p && p.links[0] {
			a.base().Drop(life, fmt.Errorf("%w: %w", errFate, p.cause))
		}
	})
}

// bury forgets a peer once none of its connections is up, and goes on with a new one.
func (a *Agent) bury(life wire.Life, p *peer) {
	for _, up := range p.links {
		if up {
			return
		}
	}
	delete(a.peers, life)
	if p.up {
		a.events.Push(agent.PeerLost{Peer: life, Err: p.cause})
	}
	for _, addr := range p.addrs {
		if addr != "" {
			a.retry(addr, p.cause)
		}
	}
	for _, e := range p.again {
		if lost, ok := e.(agent.PeerLost); ok {
			a.lost(0, lost)
			continue
		}
		a.ofBase(e)
	}
}

// maxRetries is how often a Connect is begun anew whose connections were lost before it was
// settled what is used: the other side may have taken the base's new connection for the old one,
// whose fate it had to share.
const maxRetries = 5

func (a *Agent) retry(addr string, cause error) {
	if a.closing || a.retries[addr] == maxRetries {
		delete(a.retries, addr)
		a.connectFailed(addr, cause)
		return
	}
	a.retries[addr]++
	a.base().Connect(addr)
}
