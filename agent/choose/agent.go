package choose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"kvferry/agent"
	"kvferry/agent/event"
	"kvferry/wire"
)

// Agent is an agent.Agent.
type Agent struct {
	log      *slog.Logger
	events   *event.Queue
	finished chan struct{}

	mu      sync.Mutex
	all     []Named // the base, then the fast ones; fixed once started
	own     wire.Life
	started bool
	closing bool
	peers   map[wire.Life]*peer
	retries map[string]int // by address, of Connects that are begun anew
	revoked map[uint64]int // of each epoch being revoked, the agents that have not said so
	running sync.WaitGroup // of the agents' events
}

var _ agent.Agent = (*Agent)(nil)

// New makes an agent of several.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Agent{
		log: o.Log, events: event.NewQueue(), finished: make(chan struct{}),
		all: append([]Named{o.Base}, o.Fast...), peers: map[wire.Life]*peer{}, revoked: map[uint64]int{}, retries: map[string]int{},
	}
}

func (a *Agent) base() agent.Agent { return a.all[0].Agent }

// Capabilities are what all of the agents can do: which one is used is known only of each peer.
func (a *Agent) Capabilities() agent.Capabilities {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.base().Capabilities()
	for _, n := range a.all[1:] {
		o := n.Agent.Capabilities()
		c.OneSidedWrite = c.OneSidedWrite && o.OneSidedWrite
		c.OneSidedRead = c.OneSidedRead && o.OneSidedRead
		c.Fencing = c.Fencing && o.Fencing
	}
	return c
}

// Register adds a region. A fast agent that cannot take it is left out.
func (a *Agent) Register(mem []byte) (agent.Region, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	region, err := a.base().Register(mem)
	if err != nil {
		return region, err
	}
	a.keep(func(n Named) error {
		r, err := n.Agent.Register(mem)
		if err == nil && r != region {
			err = fmt.Errorf("it numbers a region %d that is %d", r, region)
		}
		return err
	})
	return region, nil
}

// Start starts the agents. A fast one that cannot start is left out.
func (a *Agent) Start(hello wire.Hello) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closing {
		return errors.New("choose: an agent starts once")
	}
	if err := a.base().Start(hello); err != nil {
		return err
	}
	a.keep(func(n Named) error { return n.Agent.Start(hello) })
	a.started, a.own = true, hello.Life
	for i := range a.all {
		a.running.Go(func() {
			for e := range a.all[i].Agent.Events() {
				a.event(i, e)
			}
		})
	}
	return nil
}

// keep leaves out the fast agents that fail.
func (a *Agent) keep(try func(Named) error) {
	kept := a.all[:1]
	for _, n := range a.all[1:] {
		if err := try(n); err != nil {
			a.log.Warn("a transfer agent is left out", "agent", n.Name, "err", err)
			a.discard(n.Agent)
			continue
		}
		kept = append(kept, n)
	}
	a.all = kept
}

// discard closes an agent that is not used.
func (a *Agent) discard(left agent.Agent) {
	a.running.Go(func() {
		for range left.Events() {
			continue
		}
	})
	a.running.Go(func() { _ = left.Close(context.Background()) }) // it has no peers to wait for
}

// Addr is the base's address.
func (a *Agent) Addr() string { return a.base().Addr() }

// Events is closed after Close; it must be read until then.
func (a *Agent) Events() <-chan agent.Event { return a.events.Events() }

// Connect connects by the base, and then by what both have.
func (a *Agent) Connect(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started || a.closing {
		err := agent.ErrClosed
		if !a.closing {
			err = errors.New("the agent is not started")
		}
		a.connectFailed(addr, err)
		return
	}
	a.base().Connect(addr)
}

func (a *Agent) connectFailed(addr string, cause error) {
	a.events.Push(agent.ConnectFailed{Addr: addr, Err: &agent.Error{Op: "connect", Addr: addr, Cause: cause}})
}

// Write starts a one-sided write, by what is used with the peer.
func (a *Agent) Write(t agent.Transfer) {
	if by := a.via("write", &t); by != nil {
		by.Write(t)
	}
}

// Read starts a one-sided read likewise.
func (a *Agent) Read(t agent.Transfer) {
	if by := a.via("read", &t); by != nil {
		by.Read(t)
	}
}

// via is what is used with a transfer's peer. Where nothing is, the transfer is done.
func (a *Agent) via(op string, t *agent.Transfer) agent.Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	cause := agent.ErrUnknownPeer
	switch p := a.peers[t.Peer]; {
	case a.closing:
		cause = agent.ErrClosed
	case p == nil || !p.up:
	case p.ending:
		cause = agent.Lost(p.cause)
	default:
		return a.all[p.data].Agent
	}
	a.events.Push(agent.Done{ID: t.ID, Err: &agent.Error{Op: op, Peer: t.Peer, Transfer: t.ID, Cause: cause}})
	return nil
}

// Via is the name of what moves the bytes between us and a peer that is up, or empty.
func (a *Agent) Via(life wire.Life) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.peers[life]; p != nil && p.up {
		return a.all[p.data].Name
	}
	return ""
}

// Notify goes by the base.
func (a *Agent) Notify(peer wire.Life, payload []byte) {
	if bytes.HasPrefix(payload, magic) {
		a.Drop(peer, errors.New("choose: a notice begins as our own messages do"))
		return
	}
	a.base().Notify(peer, payload)
}

// Grant opens a receive epoch, by whatever the peer writes.
func (a *Agent) Grant(epoch uint64, peer wire.Life, ranges []agent.Desc) {
	for _, n := range a.agents() {
		n.Agent.Grant(epoch, peer, ranges)
	}
}

// Revoke closes it. Revoked follows when all have said so.
func (a *Agent) Revoke(epoch uint64) {
	all := a.agents()
	a.mu.Lock()
	a.revoked[epoch] += len(all)
	a.mu.Unlock()
	for _, n := range all {
		n.Agent.Revoke(epoch)
	}
}

func (a *Agent) agents() []Named {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// Drop ends all connections with a peer.
func (a *Agent) Drop(life wire.Life, cause error) {
	for _, n := range a.agents() {
		n.Agent.Drop(life, cause)
	}
}

// Close closes the agents and waits, at most as long as ctx, until no byte is touched any more.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	first, all, started := !a.closing, a.all, a.started
	a.closing = true
	a.mu.Unlock()
	var errs []error
	for _, n := range slices.Backward(all) { // the base last: its end would end the others for the peer's reason
		if !started {
			a.discard(n.Agent)
		}
		errs = append(errs, n.Agent.Close(ctx))
	}
	if first {
		go func() {
			a.running.Wait()
			a.events.Close()
			close(a.finished)
		}()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("choose: %w", err)
	}
	select {
	case <-a.finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("choose: close: %w", context.Cause(ctx))
	}
}
