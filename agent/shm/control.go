//go:build linux

package shm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"kvferry/agent"
	"kvferry/agent/frame"
	"kvferry/wire"
)

// errOutFull is why a peer is dropped that takes no messages off us.
var errOutFull = errors.New("the message queue is full: the peer does not read it")

// alive reads a socket that must not be silent for longer than after.
type alive struct {
	net.Conn
	after time.Duration
}

func (c alive) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.after)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no sign of life for %v", c.after)
	}
	return n, err
}

// readControl takes the peer's messages, until the socket ends: at once where the process does.
func (l *link) readControl() {
	r := bufio.NewReaderSize(alive{l.conn, l.a.o.DeadAfter}, 64<<10)
	for {
		f, b, err := frame.Read(r, wire.MaxNotice)
		if err == nil {
			err = l.handle(f, b)
		}
		if err != nil {
			gone := &net.OpError{}
			broken := errors.As(err, &gone)
			if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
				err, broken = errors.New("the peer closed the connection"), true
			}
			l.fail(err, !broken)
			return
		}
	}
}

// handle takes one message. It never waits.
func (l *link) handle(f wire.Frame, b []byte) error {
	switch f {
	case wire.FrameNotice:
		l.a.events.Push(agent.Notice{Peer: l.hello.Life, Payload: b})
		return nil
	case wire.FramePing:
		p, err := wire.DecodePing(b)
		if err == nil {
			l.say(wire.FramePong, p)
		}
		return err
	case wire.FramePong:
		_, err := wire.DecodePing(b)
		return err
	case wire.FrameBye:
		y, err := wire.DecodeBye(b)
		if err == nil {
			err = fmt.Errorf("the peer says: %s", y.Reason)
		}
		return err
	}
	return fmt.Errorf("a %s on a link that is up", f)
}

// say queues a message. It never waits.
func (l *link) say(f wire.Frame, body wire.Body) {
	if err := l.out.Push(wire.Pack(f, body)); err != nil {
		l.fail(err, true)
	}
}

// writeControl sends what is queued, and pings, until the queue is closed and empty.
func (l *link) writeControl() {
	defer l.conn.Close()
	tick := time.NewTicker(l.a.o.Ping)
	defer tick.Stop()
	for seq := uint64(0); ; {
		select {
		case <-l.out.Wake():
		case <-tick.C:
			seq++
			l.say(wire.FramePing, wire.Ping{Seq: seq})
		}
		frames, closed := l.out.Take()
		bufs := net.Buffers(frames)
		if _, err := bufs.WriteTo(l.conn); err != nil {
			l.fail(fmt.Errorf("the peer closed the connection: %w", err), false)
			return
		}
		if closed {
			return
		}
	}
}
