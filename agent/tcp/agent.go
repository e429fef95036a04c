// Package tcp is a transfer agent over TCP, in Go alone. Between two processes there is a
// control connection (handshake, notices, acknowledgements, read requests, pings) and one
// bulk connection or more, so that a small message never waits behind blocks.
//
// Bytes go straight from registered memory to registered memory: the sender gives the kernel
// its blocks, and the receiver's own goroutine checks every range against the epoch's grant
// before it lets the kernel fill the blocks. So a revoked receive is fenced. // PIPE-32
//
// Every connection, the bulk ones too, begins with both ends' proof of the deployment's token,
// inside TLS where there are certificates. Before that nothing is said that is not public.
package tcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/agent/certs"
	"kvferry/agent/cut"
	"kvferry/agent/event"
	"kvferry/agent/grant"
	"kvferry/wire"
)

// Options of an agent. The zero value is good; what is zero gets the default named here.
type Options struct {
	// Listen is where peers connect to: 127.0.0.1:0.
	Listen string
	// Log gets an event a line: slog.Default().
	Log *slog.Logger
	// Secret is the deployment's token. A peer must have the same, or none where this is zero.
	Secret auth.Secret
	// TLS, when not nil, encrypts every connection; both ends need certificates of one authority.
	TLS *certs.Store
	// Handshake is how long Connect and a peer that connects may take in all: 5 s.
	Handshake time.Duration
	// Ping is how often a peer is asked for a sign of life, and DeadAfter how long it may owe
	// one before it is lost: 2 s and 10 s.
	Ping, DeadAfter time.Duration
	// RevokeGrace is how long a frame of a revoked epoch may take to be finished before its
	// connections are closed: 200 ms.
	RevokeGrace time.Duration
	// Bulk is how many bulk connections the dialling side opens: 1.
	Bulk int
	// Checksum adds a CRC32C to each bulk frame that we send.
	Checksum bool
	// SocketBuffer is the size in bytes of a bulk connection's buffers, on either side of it. 0 is
	// 256 KiB where the peer is on this host, so that bytes are still in the cache when they are
	// taken out, and what the kernel finds right elsewhere; -1 is the kernel's choice everywhere.
	SocketBuffer int
	// FrameBytes and FrameRanges are the most that one bulk frame carries: 1 MiB and 1000, which
	// one system call takes.
	FrameBytes  int
	FrameRanges int
	// Conn, when not nil, is put around every connection that is up: for tests that make it
	// slow or cut it. agent/fault has some.
	Conn func(c net.Conn, bulk bool) net.Conn
}

func (o Options) withDefaults() Options {
	def(&o.Listen, "127.0.0.1:0")
	def(&o.Handshake, 5*time.Second)
	def(&o.Ping, 2*time.Second)
	def(&o.DeadAfter, 10*time.Second)
	def(&o.RevokeGrace, 200*time.Millisecond)
	def(&o.Bulk, 1)
	def(&o.FrameBytes, 1<<20)
	def(&o.FrameRanges, 1000)
	o.Bulk = min(o.Bulk, wire.MaxBulkConnections)
	o.FrameBytes = min(o.FrameBytes, wire.MaxBulk)
	o.FrameRanges = min(o.FrameRanges, wire.MaxRanges)
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

// Agent is an agent.Agent.
type Agent struct {
	o      Options
	log    *slog.Logger
	events *event.Queue
	grants *grant.Table[*link]
	peers  *peers
	joins  *joins
	doors  doors

	// ctx ends with Close; wg counts what must end before finished is closed.
	ctx      context.Context
	stop     context.CancelCauseFunc
	wg       sync.WaitGroup
	finished chan struct{}

	mu       sync.Mutex
	started  bool
	closed   bool
	regions  cut.Regions // fixed once started
	hello    wire.Hello  // likewise
	listener net.Listener
}

var _ agent.Agent = (*Agent)(nil)

// maxDoors is how many connections may be in their handshake at once.
const maxDoors = 256

// New makes an agent. It listens from Start on.
func New(o Options) *Agent {
	a := &Agent{
		o: o.withDefaults(), events: event.NewQueue(), peers: newPeers(), joins: newJoins(),
		doors: doors{max: maxDoors}, finished: make(chan struct{}),
	}
	a.log = a.o.Log
	a.grants = grant.New[*link](func(epoch uint64) { a.events.Push(agent.Revoked{Epoch: epoch}) })
	a.ctx, a.stop = context.WithCancelCause(context.Background())
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
	if a.started || a.closed {
		return 0, errors.New("tcp: regions are registered before Start")
	}
	a.regions = append(a.regions, mem)
	return agent.Region(len(a.regions) - 1), nil
}

// Start listens.
func (a *Agent) Start(hello wire.Hello) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.closed {
		return errors.New("tcp: an agent starts once")
	}
	if hello.Life == (wire.Life{}) {
		return errors.New("tcp: the hello has no life")
	}
	ln, err := net.Listen("tcp", a.o.Listen)
	if err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	a.started, a.hello, a.listener = true, hello, ln
	a.wg.Go(func() { a.accept(ln) })
	return nil
}

// Addr is the host and port that we listen on, or what Listen says before Start.
func (a *Agent) Addr() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listener == nil {
		return a.o.Listen
	}
	return a.listener.Addr().String()
}

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

// Drop closes the connections with a peer.
func (a *Agent) Drop(peer wire.Life, cause error) {
	if l := a.peers.up(peer); l != nil {
		l.fail(cause, true)
	}
}

// Notify sends a payload on the control connection.
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
	l.send(wire.FrameNotice, wire.Raw(payload))
}

// Write starts a one-sided write.
func (a *Agent) Write(t agent.Transfer) { a.begin("write", &t, (*link).write) }

// Read starts a one-sided read.
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
	return a.regions
}

// Close ends every connection and waits, at most as long as ctx, until their goroutines
// have ended. Events is closed after the last of them.
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
		return fmt.Errorf("tcp: close: %w", context.Cause(ctx))
	}
}

func (a *Agent) finish() {
	a.wg.Wait()
	a.events.Close()
	close(a.finished)
}
