//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/agent/event"
	"kvferry/wire"
)

// Agent is an agent.Agent. Its methods hand over to the goroutine that owns NIXL's agent.
type Agent struct {
	o        Options
	lib      *library
	events   *event.Queue
	owner    owner
	finished chan struct{}

	mu      sync.Mutex
	regions cut.Regions // fixed once started
	started bool
	closing bool
}

var _ agent.Agent = (*Agent)(nil)

// New loads NIXL's library and makes an agent. Errors say what to install.
func New(o Options) (agent.Agent, error) {
	file, err := FindLibrary(o.Library)
	if err != nil {
		return nil, err
	}
	lib, err := open(file)
	if err != nil {
		return nil, err
	}
	if o.Backend == "" {
		o.Backend = DefaultBackend
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	a := &Agent{o: o, lib: lib, events: event.NewQueue(), finished: make(chan struct{})}
	a.owner.init(a)
	return a, nil
}

// Capabilities says that NIXL writes and reads, and cannot refuse a write.
func (a *Agent) Capabilities() agent.Capabilities {
	return agent.Capabilities{OneSidedWrite: true, OneSidedRead: true}
}

// Register adds a region, which must not be of the Go heap. It is an error after Start.
func (a *Agent) Register(mem []byte) (agent.Region, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.started || a.closing:
		return 0, errors.New("nixl: regions are registered before Start")
	case len(mem) == 0:
		return 0, errors.New("nixl: a region without bytes")
	case len(a.regions) == maxPlaces:
		return 0, fmt.Errorf("nixl: more than %d regions", maxPlaces)
	}
	a.regions = append(a.regions, mem)
	return agent.Region(len(a.regions) - 1), nil
}

// Start registers the regions with NIXL and begins to accept peers.
func (a *Agent) Start(hello wire.Hello) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closing {
		return errors.New("nixl: an agent starts once")
	}
	if hello.Life == (wire.Life{}) {
		return errors.New("nixl: the hello has no life")
	}
	if err := a.owner.start(hello.Life.String()); err != nil {
		return err
	}
	if err := a.o.Control.Start(hello); err != nil {
		a.owner.end()
		return err
	}
	a.started = true
	go a.pump()
	return nil
}

// Addr is the control agent's address.
func (a *Agent) Addr() string { return a.o.Control.Addr() }

// Events is closed after Close; it must be read until then.
func (a *Agent) Events() <-chan agent.Event { return a.events.Events() }

// Connect makes the control agent's connection; PeerUp follows once both cards are exchanged.
func (a *Agent) Connect(addr string) {
	a.mu.Lock()
	started, closing := a.started, a.closing
	a.mu.Unlock()
	switch {
	case closing:
		a.connectFailed(addr, agent.ErrClosed)
	case !started:
		a.connectFailed(addr, errors.New("the agent is not started"))
	default:
		a.o.Control.Connect(addr)
	}
}

func (a *Agent) connectFailed(addr string, cause error) {
	a.events.Push(agent.ConnectFailed{Addr: addr, Err: &agent.Error{Op: "connect", Addr: addr, Cause: cause}})
}

// Write starts a one-sided write.
func (a *Agent) Write(t agent.Transfer) { a.begin("write", &t) }

// Read starts a one-sided read.
func (a *Agent) Read(t agent.Transfer) { a.begin("read", &t) }

func (a *Agent) begin(kind string, t *agent.Transfer) {
	a.mu.Lock()
	regions, started, closing := a.regions, a.started, a.closing
	a.mu.Unlock()
	err := cut.Check(t, regions)
	switch {
	case err != nil:
	case closing:
		err = agent.ErrClosed
	case !started:
		err = agent.ErrUnknownPeer
	default:
		if a.owner.call(func() { a.owner.begin(kind, t) }) {
			return
		}
		err = agent.ErrClosed
	}
	a.done(kind, t, err)
}

func (a *Agent) done(kind string, t *agent.Transfer, err error) {
	if err != nil {
		err = &agent.Error{Op: kind, Peer: t.Peer, Transfer: t.ID, Cause: err}
	}
	a.events.Push(agent.Done{ID: t.ID, Err: err})
}

// Notify gives the peer a payload, over the control agent.
func (a *Agent) Notify(peer wire.Life, payload []byte) {
	if len(payload) > wire.MaxNotice {
		a.Drop(peer, fmt.Errorf("a notice of %d bytes is longer than %d", len(payload), wire.MaxNotice))
		return
	}
	for _, p := range pieces(saysMore, saysNotice, payload) {
		a.o.Control.Notify(peer, p)
	}
}

// Grant does nothing: NIXL cannot ask it.
func (a *Agent) Grant(uint64, wire.Life, []agent.Desc) {}

// Revoke says at once that it is done, which without fencing means nothing.
func (a *Agent) Revoke(epoch uint64) { a.events.Push(agent.Revoked{Epoch: epoch}) }

// Drop closes the control connection; what is in flight ends with it.
func (a *Agent) Drop(peer wire.Life, cause error) { a.o.Control.Drop(peer, cause) }

// Close ends every connection and waits, at most as long as ctx, until NIXL has let go of the
// memory.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	first, started := !a.closing, a.started
	a.closing = true
	a.mu.Unlock()
	if err := a.o.Control.Close(ctx); err != nil {
		return fmt.Errorf("nixl: %w", err)
	}
	if first && !started {
		a.owner.end()
		a.events.Close()
		close(a.finished)
		drain(a.o.Control)
	}
	select {
	case <-a.finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nixl: close: %w", context.Cause(ctx))
	}
}

// drain reads the events of a control agent that never started.
func drain(control agent.Agent) {
	for range control.Events() {
		continue
	}
}
