//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/agent/outbox"
	"kvferry/wire"
)

// lastWords is how long our Bye may take to go out.
const lastWords = 100 * time.Millisecond

// link is what we share with one peer while it is up.
type link struct {
	a     *Agent
	slot  *slot
	addr  string // that we dialled, or empty
	hello wire.Hello
	conn  *net.UnixConn
	out   *outbox.Box
	door  *memory.Memory
	bell  *os.File
	peer  *peerMemory
	wg    sync.WaitGroup // its goroutines

	ended atomic.Bool
	done  chan struct{} // closed with ended
	idle  chan struct{} // closed when it ended and nothing is copied any more

	consumer consumer // of the goroutine that listens

	mu    sync.Mutex
	cause error // why it ends, once it does
	busy  int   // jobs that wait or run
	next  uint64
	ops   map[uint64]*op // our transfers in flight, by number
	sender
	receiver
}

// newLink makes our side of a link.
func (a *Agent) newLink(s *slot, addr string, hello wire.Hello) (*link, error) {
	l := &link{
		a: a, slot: s, addr: addr, hello: hello, out: outbox.New(errOutFull), ops: make(map[uint64]*op),
		done: make(chan struct{}), idle: make(chan struct{}), receiver: newReceiver(),
	}
	var err error
	if l.door, err = newDoor(); err != nil {
		return l, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return l, fmt.Errorf("eventfd: %w", err)
	}
	l.bell = os.NewFile(uintptr(fd), "shm bell")
	return l, nil
}

// send gives the peer our door, our bell and our regions.
func (l *link) send(c *shake) error {
	l.a.mu.Lock()
	own := l.a.own
	l.a.mu.Unlock()
	raw, err := l.bell.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(bell uintptr) {
		sent = c.sendKit(&own.kit, append([]int{l.door.FD(), int(bell)}, own.files...))
	}); err != nil {
		return err
	}
	return closedEarly(sent)
}

// receive maps what the peer gives.
func (l *link) receive(c *shake) error {
	k, files, err := c.receiveKit()
	if err != nil {
		return err
	}
	if l.peer, err = take(k, files); err != nil {
		return fmt.Errorf("%w: %w", agent.ErrNotLocal, err)
	}
	mine := door{l.door.Bytes()}
	l.producer = producer{mine: mine, peer: l.peer.door}
	l.consumer = consumer{mine: mine, peer: l.peer.door}
	return nil
}

// adopt takes the socket over from the handshake.
func (l *link) adopt(c *shake) (err error) {
	l.conn, err = c.keep()
	return err
}

// release gives back all that the link has. Nothing of it is used any more.
func (l *link) release() {
	if l.conn != nil {
		_ = l.conn.Close() // it may be closed already
	}
	if l.bell != nil {
		_ = l.bell.Close() // likewise
	}
	if l.peer != nil {
		l.peer.release()
	}
	if l.door != nil {
		_ = l.door.Close() // it was mapped
	}
}

// linkUp tells that the peer is up and lets the link run.
func (a *Agent) linkUp(l *link) {
	a.peers.settle(l.slot, l, func() { a.events.Push(agent.PeerUp{Addr: l.addr, Hello: l.hello}) })
	a.log.Info("peer up", "peer", l.hello.Life, "role", l.hello.Role, "by", "shm", "dialled", l.addr != "")
	l.start()
}

// start lets the link run, until fail.
func (l *link) start() {
	l.wg.Go(l.readControl)
	l.wg.Go(l.writeControl)
	l.wg.Go(l.listen)
	stop := context.AfterFunc(l.a.ctx, func() { l.fail(context.Cause(l.a.ctx), true) })
	l.a.wg.Go(func() {
		l.wg.Wait()
		<-l.idle
		stop()
		l.bury()
	})
}

// fail ends the link; the first cause counts. It tells the peer where that may still listen.
func (l *link) fail(cause error, tell bool) {
	if cause == nil {
		cause = errors.New("dropped")
	}
	if !l.end(cause) {
		return
	}
	_ = l.bell.Close() // whoever reads it finds out
	if !tell {
		_ = l.conn.Close() // it is broken
	} else {
		time.AfterFunc(lastWords, func() { _ = l.conn.Close() })
	}
	l.out.End(wire.Pack(wire.FrameBye, wire.Bye{Reason: clip(cause.Error())}))
}

// end marks the link's end, for the peer too: before anybody hears that a transfer failed and uses
// its blocks for something else, the peer can see that what it copies out of them is worth
// nothing. So one that was stopped in the middle and goes on later does not take it for KV.
func (l *link) end(cause error) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	l.producer.mine.closed().Store(1)
	l.ended.Store(true)
	close(l.done)
	if l.busy == 0 {
		close(l.idle)
	}
	return true
}

// failSoon ends the link, but lets the peer say why on the socket first.
func (l *link) failSoon(cause error) {
	time.AfterFunc(lastWords, func() { l.fail(cause, true) })
}

// leave ends a job. It is called under the lock.
func (l *link) leave() {
	if l.busy--; l.busy == 0 && l.cause != nil {
		close(l.idle)
	}
}

// unlock sends what there is room for, rings, and unlocks.
func (l *link) unlock() {
	var err error
	if l.cause == nil {
		if err = l.pump(); err == nil && l.producer.owed {
			l.producer.owed = false
			err = l.peer.ring()
		}
	}
	l.mu.Unlock()
	if err != nil {
		l.fail(err, true)
	}
}

// bury ends the transfers in flight and then tells that the peer is lost. Nothing of the link
// runs any more.
func (l *link) bury() {
	l.mu.Lock()
	cause := agent.Lost(l.cause)
	for _, o := range l.ops {
		l.settle(o, cause)
	}
	l.abandon()
	l.release()
	l.mu.Unlock()
	err := &agent.Error{Op: "connection", Peer: l.hello.Life, Addr: l.addr, Cause: cause}
	level := slog.LevelWarn
	if errors.Is(cause, agent.ErrClosed) {
		level = slog.LevelInfo
	}
	l.a.log.Log(context.Background(), level, "peer lost", "peer", l.hello.Life, "err", cause)
	l.a.peers.release(l.slot, func() { l.a.events.Push(agent.PeerLost{Peer: l.hello.Life, Err: err}) })
}

// clip makes text fit a field.
func clip(s string) string { return s[:min(len(s), maxReason)] }
