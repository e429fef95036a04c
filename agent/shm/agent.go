//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/agent/event"
	"kvferry/agent/grant"
	"kvferry/wire"
)

// Agent is an agent.Agent.
type Agent struct {
	o      Options
	host   string
	log    *slog.Logger
	events *event.Queue
	grants *grant.Table[*link]
	peers  *peers
	jobs   *schedule
	doors  chan struct{} // one token for each connection in its handshake

	// ctx ends with Close; wg counts what must end before the workers may, which come before
	// finished is closed.
	ctx      context.Context
	stop     context.CancelCauseFunc
	wg       sync.WaitGroup
	workers  sync.WaitGroup
	finished chan struct{}

	mu       sync.Mutex
	started  bool
	closed   bool
	own      own        // fixed once started
	hello    wire.Hello // likewise
	name     string
	listener *net.UnixListener
}

var _ agent.Agent = (*Agent)(nil)

// maxDoors is how many connections may be in their handshake at once.
const maxDoors = 64

// New makes an agent. It listens from Start on.
func New(o Options) (*Agent, error) {
	host, err := hostKey()
	if err != nil {
		return nil, err
	}
	name, err := listenName(host, o.Listen)
	if err != nil {
		return nil, fmt.Errorf("shm: listen on %q: %w", o.Listen, err)
	}
	a := &Agent{
		o: o.withDefaults(), host: host, name: name, events: event.NewQueue(), peers: newPeers(),
		jobs: newSchedule(), doors: make(chan struct{}, maxDoors), finished: make(chan struct{}),
	}
	a.log = a.o.Log
	a.grants = grant.New[*link](func(epoch uint64) { a.events.Push(agent.Revoked{Epoch: epoch}) })
	a.ctx, a.stop = context.WithCancelCause(context.Background())
	return a, nil
}

func (o Options) withDefaults() Options {
	def(&o.Handshake, 5*time.Second)
	def(&o.Ping, 2*time.Second)
	def(&o.DeadAfter, 10*time.Second)
	def(&o.RevokeGrace, 200*time.Millisecond)
	def(&o.Workers, runtime.GOMAXPROCS(0))
	def(&o.FrameBytes, 1<<20)
	def(&o.FrameRanges, 256)
	o.FrameBytes = min(o.FrameBytes, wire.MaxBulk)
	o.FrameRanges = min(o.FrameRanges, maxPairs)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Capabilities says that this agent can do everything.
func (a *Agent) Capabilities() agent.Capabilities {
	return agent.Capabilities{OneSidedWrite: true, OneSidedRead: true, Fencing: true}
}

// Register adds a region, of memory.Map: other memory has no descriptor that a peer could map. A
// peer can read all of the mapping. It is an error after Start.
func (a *Agent) Register(mem []byte) (agent.Region, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closed {
		return 0, errors.New("shm: regions are registered before Start")
	}
	if err := a.own.add(mem); err != nil {
		return 0, fmt.Errorf("shm: register %d bytes: %w", len(mem), err)
	}
	return agent.Region(len(a.own.regions) - 1), nil
}

// Start listens.
func (a *Agent) Start(hello wire.Hello) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closed {
		return errors.New("shm: an agent starts once")
	}
	if hello.Life == (wire.Life{}) {
		return errors.New("shm: the hello has no life")
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: socketPrefix + a.name})
	if err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	a.started, a.hello, a.listener = true, hello, ln
	a.wg.Go(func() { a.accept(ln) })
	for range a.o.Workers {
		a.workers.Go(a.jobs.work)
	}
	return nil
}

// Addr is shm:HOST/NAME. HOST tells hosts, network namespaces and user namespaces apart.
func (a *Agent) Addr() string { return scheme + a.host + "/" + a.name }

// Events is closed after Close; it must be read until then.
func (a *Agent) Events() <-chan agent.Event { return a.events.Events() }

// Grant opens a receive epoch. Epochs are not used twice.
func (a *Agent) Grant(epoch uint64, peer wire.Life, ranges []agent.Desc) {
	if err := a.grants.Open(epoch, peer, ranges); err != nil {
		a.log.Error("grant refused", "peer", peer, "err", err)
	}
}

// Revoke closes a receive epoch.
func (a *Agent) Revoke(epoch uint64) {
	if !a.grants.Revoke(epoch) {
		return
	}
	time.AfterFunc(a.o.RevokeGrace, func() {
		for _, l := range a.grants.Holders(epoch) {
			l.fail(grant.ErrGrace(epoch), true)
		}
	})
}

// Drop ends the link with a peer.
func (a *Agent) Drop(peer wire.Life, cause error) {
	if l := a.peers.up(peer); l != nil {
		l.fail(cause, true)
	}
}

// Notify sends a payload on the socket.
func (a *Agent) Notify(peer wire.Life, payload []byte) {
	l := a.peers.up(peer)
	if l == nil {
		a.log.Debug("notice for an unknown peer", "peer", peer)
		return
	}
	if len(payload) > wire.MaxNotice {
		l.fail(fmt.Errorf("a notice of %d bytes is longer than %d", len(payload), wire.MaxNotice), true)
		return
	}
	l.say(wire.FrameNotice, wire.Raw(payload))
}

// Write starts a one-sided write.
func (a *Agent) Write(t agent.Transfer) { a.begin("write", &t, (*link).write) }

// Read starts a one-sided read. A word of 8 bytes in its list is loaded after all that stands
// before it was read.
func (a *Agent) Read(t agent.Transfer) { a.begin("read", &t, (*link).read) }

func (a *Agent) begin(op string, t *agent.Transfer, start func(*link, *agent.Transfer) error) {
	err := cut.Check(t, a.memory())
	if err == nil {
		if l := a.peers.up(t.Peer); l != nil {
			err = start(l, t)
		} else if err = context.Cause(a.ctx); err == nil {
			err = agent.ErrUnknownPeer
		}
	}
	if err != nil {
		a.done(op, t, err)
	}
}

func (a *Agent) done(op string, t *agent.Transfer, err error) {
	if err != nil {
		err = &agent.Error{Op: op, Peer: t.Peer, Transfer: t.ID, Cause: err}
	}
	a.events.Push(agent.Done{ID: t.ID, Err: err})
}

func (a *Agent) memory() cut.Regions {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own.regions
}

// Close ends every link and waits, at most as long as ctx, until nothing is copied any more and
// no peer's memory is mapped. Events is closed after the last of them.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	first := !a.closed
	a.closed = true
	ln := a.listener
	a.mu.Unlock()
	if first {
		a.stop(agent.ErrClosed)
		if ln != nil {
			_ = ln.Close() // nothing depends on how a listener closes
		}
		go a.finish()
	}
	select {
	case <-a.finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shm: close: %w", context.Cause(ctx))
	}
}

func (a *Agent) finish() {
	a.wg.Wait()
	a.jobs.close()
	a.workers.Wait()
	a.mu.Lock()
	a.own.close()
	a.mu.Unlock()
	a.events.Close()
	close(a.finished)
}
