package mem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/agent/event"
	"kvferry/agent/grant"
	"kvferry/wire"
)

// Options of an agent. What is zero gets the default named here.
type Options struct {
	// Network is where the peers are. It must be given.
	Network *Network
	// Addr is the address on it: a new one.
	Addr string
	// Log gets an event a line: slog.Default().
	Log *slog.Logger
	// RevokeGrace is how long a frame of a revoked epoch may take to be finished before the
	// pair is ended: 200 ms.
	RevokeGrace time.Duration
	// FrameBytes and FrameRanges are the most that is moved between two looks at the
	// grants: 1 MiB and 256.
	FrameBytes, FrameRanges int
	// Pace, when not nil, is asked before bytes leave us, and says how many of n may leave
	// now; done ends its wait. fault.Gate.Take is one.
	Pace func(done <-chan struct{}, n int) (int, error)
}

// Agent is an agent.Agent.
type Agent struct {
	o      Options
	events *event.Queue
	grants *grant.Table[*end]
	wg     sync.WaitGroup // pairs and Connects

	mu       sync.Mutex
	regions  cut.Regions // fixed once started
	started  bool
	closing  bool
	finished chan struct{}

	// Fixed once started.
	addr  string
	hello wire.Hello

	// Of the network's lock.
	closed bool
	ends   map[wire.Life]*end
}

var _ agent.Agent = (*Agent)(nil)

// New makes an agent. Peers find it from Start on.
func New(o Options) *Agent {
	if o.RevokeGrace == 0 {
		o.RevokeGrace = 200 * time.Millisecond
	}
	if o.FrameBytes == 0 {
		o.FrameBytes = 1 << 20
	}
	if o.FrameRanges == 0 {
		o.FrameRanges = 256
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Pace == nil {
		o.Pace = func(_ <-chan struct{}, n int) (int, error) { return n, nil }
	}
	a := &Agent{
		o: o, events: event.NewQueue(), finished: make(chan struct{}), ends: make(map[wire.Life]*end),
	}
	a.grants = grant.New[*end](func(epoch uint64) { a.events.Push(agent.Revoked{Epoch: epoch}) })
	return a
}

// Capabilities says that this agent can do everything.
func (a *Agent) Capabilities() agent.Capabilities {
	return agent.Capabilities{OneSidedWrite: true, OneSidedRead: true, Fencing: true}
}

// Register adds a region. It is an error after Start.
func (a *Agent) Register(mem []byte) (agent.Region, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closing {
		return 0, errors.New("mem: regions are registered before Start")
	}
	a.regions = append(a.regions, mem)
	return agent.Region(len(a.regions) - 1), nil
}

// Start enters the agent in the network.
func (a *Agent) Start(hello wire.Hello) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closing {
		return errors.New("mem: an agent starts once")
	}
	if hello.Life == (wire.Life{}) {
		return errors.New("mem: the hello has no life")
	}
	a.hello = hello
	addr, err := a.o.Network.listen(a, a.o.Addr)
	if err != nil {
		return err
	}
	a.addr, a.started = addr, true
	return nil
}

// Addr is the address on the network.
func (a *Agent) Addr() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started {
		return a.o.Addr
	}
	return a.addr
}

// Events is closed after Close; it must be read until then.
func (a *Agent) Events() <-chan agent.Event { return a.events.Events() }

// Connect makes a pair in the background.
func (a *Agent) Connect(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closing:
		a.connectFailed(addr, agent.ErrClosed)
	case !a.started:
		a.connectFailed(addr, errors.New("the agent is not started"))
	default:
		a.wg.Go(func() { a.connect(addr) })
	}
}

func (a *Agent) connect(addr string) {
	for {
		ending, err := a.o.Network.connect(a, addr)
		if err != nil {
			a.connectFailed(addr, err)
		}
		if ending == nil {
			return
		}
		<-ending
	}
}

func (a *Agent) connectFailed(addr string, cause error) {
	a.events.Push(agent.ConnectFailed{Addr: addr, Err: &agent.Error{Op: "connect", Addr: addr, Cause: cause}})
}

// Grant opens a receive epoch. Epochs are not used twice.
func (a *Agent) Grant(epoch uint64, peer wire.Life, ranges []agent.Desc) {
	if err := a.grants.Open(epoch, peer, ranges); err != nil {
		a.o.Log.Error("grant refused", "peer", peer, "err", err)
	}
}

// Revoke closes a receive epoch.
func (a *Agent) Revoke(epoch uint64) {
	if !a.grants.Revoke(epoch) {
		return
	}
	time.AfterFunc(a.o.RevokeGrace, func() {
		for _, e := range a.grants.Holders(epoch) {
			e.pair.fail(e, grant.ErrGrace(epoch))
		}
	})
}

// Drop ends the pair with a peer.
func (a *Agent) Drop(peer wire.Life, cause error) {
	if e := a.o.Network.end(a, peer); e != nil {
		e.pair.fail(e, cause)
	}
}

// Notify gives the peer a payload.
func (a *Agent) Notify(peer wire.Life, payload []byte) {
	e := a.o.Network.end(a, peer)
	switch {
	case e == nil:
	case len(payload) > wire.MaxNotice:
		e.pair.fail(e, fmt.Errorf("a notice of %d bytes is longer than %d", len(payload), wire.MaxNotice))
	default:
		e.notify(payload)
	}
}

// Write starts a one-sided write.
func (a *Agent) Write(t agent.Transfer) { a.begin("write", &t) }

// Read starts a one-sided read.
func (a *Agent) Read(t agent.Transfer) { a.begin("read", &t) }

func (a *Agent) begin(kind string, t *agent.Transfer) {
	err := cut.Check(t, a.memory())
	if err == nil {
		if e := a.o.Network.end(a, t.Peer); e != nil {
			err = e.add(kind, t)
		} else {
			err = a.unknown()
		}
	}
	if err != nil {
		a.done(kind, t, err)
	}
}

// unknown is why there is no pair with a peer.
func (a *Agent) unknown() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return agent.ErrClosed
	}
	return agent.ErrUnknownPeer
}

func (a *Agent) done(kind string, t *agent.Transfer, err error) {
	if err != nil {
		err = &agent.Error{Op: kind, Peer: t.Peer, Transfer: t.ID, Cause: err}
	}
	a.events.Push(agent.Done{ID: t.ID, Err: err})
}

func (a *Agent) memory() cut.Regions {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.regions
}

// Close ends every pair and waits, at most as long as ctx, until no byte moves any more.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	first := !a.closing
	a.closing = true
	a.mu.Unlock()
	if first {
		for _, e := range a.o.Network.allEnds(a) {
			e.pair.fail(e, agent.ErrClosed)
		}
		go a.finish()
	}
	select {
	case <-a.finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mem: close: %w", context.Cause(ctx))
	}
}

func (a *Agent) finish() {
	a.wg.Wait()
	a.o.Network.leave(a)
	a.events.Close()
	close(a.finished)
}
