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
	"kvferry/agent/cut"
	"kvferry/agent/outbox"
	"kvferry/wire"
)

// lastWords is how long the connections may take to end: for our Bye to go out, and for the
// peer's to come in when a bulk connection breaks first.
const lastWords = 100 * time.Millisecond

// link is the connections with one peer while they are up.
type link struct {
	a       *Agent
	slot    *slot
	hello   wire.Hello
	control net.Conn
	lanes   []*lane
	out     *outbox.Box
	wg      sync.WaitGroup // its readers and writers

	mu      sync.Mutex
	cause   error          // why it ends, once it does
	next    uint64         // number of the last transfer
	ops     map[uint64]*op // in flight, by number
	serving int            // reads of the peer that wait for a lane
}

func newLink(a *Agent, s *slot, hello wire.Hello, control net.Conn, lanes []net.Conn) *link {
	around := a.o.Conn
	if around == nil {
		around = func(c net.Conn, _ bool) net.Conn { return c }
	}
	l := &link{
		a: a, slot: s, hello: hello, control: around(control, false), out: outbox.New(errOutFull), ops: make(map[uint64]*op),
	}
	for i, c := range lanes {
		a.o.buffer(c)
		l.lanes = append(l.lanes, newLane(l, i, around(c, true)))
	}
	return l
}

// start lets the connections run, until fail.
func (l *link) start() {
	l.wg.Go(l.readControl)
	l.wg.Go(l.writeControl)
	for _, n := range l.lanes {
		l.wg.Go(n.receive)
		l.wg.Go(n.send)
	}
	stop := context.AfterFunc(l.a.ctx, func() { l.fail(context.Cause(l.a.ctx), true) })
	l.a.wg.Go(func() {
		l.wg.Wait()
		stop()
		l.bury()
	})
}

// fail ends the link; the first cause counts. It tells the peer where that may still listen.
func (l *link) fail(cause error, tell bool) {
	if cause == nil {
		cause = errors.New("dropped")
	}
	l.mu.Lock()
	first := l.cause == nil
	if first {
		l.cause = cause
		for _, n := range l.lanes {
			n.wake.Broadcast()
		}
	}
	l.mu.Unlock()
	if !first {
		return
	}
	for _, n := range l.lanes {
		n.close()
	}
	if !tell {
		_ = l.control.Close() // it is broken
	} else {
		time.AfterFunc(lastWords, func() { _ = l.control.Close() })
	}
	l.out.End(wire.Pack(wire.FrameBye, wire.Bye{Reason: clip(cause.Error())}))
}

func (l *link) ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause != nil
}

// failSoon ends the link, but lets the peer say why on the control connection first.
func (l *link) failSoon(cause error) {
	time.AfterFunc(lastWords, func() { l.fail(cause, true) })
}

// broken ends the link because a bulk connection broke.
func (l *link) broken(n *lane, err error) {
	n.close()
	l.failSoon(fmt.Errorf("bulk connection %d: %w", n.index, err))
}

// bury ends the transfers in flight and then tells that the peer is lost. No goroutine of the
// link is left.
func (l *link) bury() {
	l.mu.Lock()
	cause := agent.Lost(l.cause)
	for _, o := range l.ops {
		l.settle(o, cause)
	}
	l.mu.Unlock()
	err := &agent.Error{Op: "connection", Peer: l.hello.Life, Addr: l.control.RemoteAddr().String(), Cause: cause}
	level := slog.LevelWarn
	if errors.Is(cause, agent.ErrClosed) {
		level = slog.LevelInfo
	}
	l.a.log.Log(context.Background(), level, "peer lost", "peer", l.hello.Life, "err", cause)
	l.a.peers.release(l.slot, func() { l.a.events.Push(agent.PeerLost{Peer: l.hello.Life, Err: err}) })
}

// send queues a control frame. It never waits.
func (l *link) send(f wire.Frame, body wire.Body) {
	if err := l.out.Push(wire.Pack(f, body)); err != nil {
		l.fail(err, true)
	}
}

// op is a transfer of ours in flight. Its fields are of the link's lock.
type op struct {
	kind   string // write, read
	t      *agent.Transfer
	number uint64
	cut    *cut.Cutter // of a write the parts to send, of a read the parts to land
	parts  uint32      // parts sent or landed
	whole  bool        // the last part is on its way
	// busy says that a write's blocks are being sent now. What ends the transfer then is kept
	// in over and err until they are not.
	busy bool
	over bool
	err  error
	dead bool // Done was told
}

// begin numbers a transfer and puts it in flight. It is called under the lock.
func (l *link) begin(kind string, t *agent.Transfer) *op {
	l.next++
	o := &op{kind: kind, t: t, number: l.next, cut: cut.NewCutter(t)}
	l.ops[o.number] = o
	return o
}

// end ends a transfer, at once or when its blocks are not touched any more. It is called
// under the lock.
func (l *link) end(o *op, err error) {
	if !o.busy {
		l.settle(o, err)
	} else if !o.over {
		o.over, o.err = true, err
	}
}

// idle says that the transfer's blocks are not touched any more. It is called under the lock.
func (l *link) idle(o *op) {
	o.busy = false
	if o.over && !o.dead {
		l.settle(o, o.err)
	}
}

func (l *link) settle(o *op, err error) {
	o.dead = true
	delete(l.ops, o.number)
	l.a.done(o.kind, o.t, err)
}

func (l *link) limits() cut.Limits {
	return cut.Limits{Ranges: l.a.o.FrameRanges, Bytes: uint64(l.a.o.FrameBytes)}
}

// write begins a one-sided write. An epoch's writes are sent one after another.
func (l *link) write(t *agent.Transfer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return agent.Lost(l.cause)
	}
	o := l.begin("write", t)
	n := l.lanes[t.Epoch%uint64(len(l.lanes))]
	n.flows.Add(flowKey{epoch: t.Epoch}, &job{op: o})
	n.wake.Signal()
	return nil
}

// read begins a one-sided read: it asks for every part.
func (l *link) read(t *agent.Transfer) error {
	l.mu.Lock()
	if l.cause != nil {
		defer l.mu.Unlock()
		return agent.Lost(l.cause)
	}
	o := l.begin("read", t)
	l.mu.Unlock()
	ask, limits := cut.NewCutter(t), l.limits()
	var p cut.Part
	for part := uint32(0); ; part++ {
		ask.NextInto(&p, limits)
		l.send(wire.FrameRead, wire.ReadRequest{Transfer: o.number, Part: part, Last: p.Last, Ranges: p.Remote})
		if p.Last {
			return nil
		}
	}
}

// clip makes text fit a field.
func clip(s string) string { return s[:min(len(s), 1<<10)] }
