package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"kvferry/agent"
	"kvferry/agent/frame"
	"kvferry/wire"
)

// errOutFull is why a peer is dropped that takes no control frames off us.
var errOutFull = errors.New("the control queue is full: the peer does not read it")

// maxServing is how many parts of reads a peer may have waiting.
const maxServing = 128 << 10

// alive reads a connection that must not be silent for longer than after.
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

// readControl takes the peer's control frames, until the connection ends.
func (l *link) readControl() {
	r := bufio.NewReaderSize(alive{l.control, l.a.o.DeadAfter}, 64<<10)
	for {
		f, b, err := frame.Read(r, wire.MaxNotice)
		if err == nil {
			err = l.handle(f, b)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the peer closed the connection")
			}
			var gone *net.OpError
			l.fail(err, !errors.As(err, &gone))
			return
		}
	}
}

// handle takes one control frame. It never waits.
func (l *link) handle(f wire.Frame, b []byte) error {
	switch f {
	case wire.FrameNotice:
		l.a.events.Push(agent.Notice{Peer: l.hello.Life, Payload: b})
		return nil
	case wire.FrameAck:
		return l.acked(b)
	case wire.FrameRead:
		return l.serve(b)
	case wire.FramePing:
		p, err := wire.DecodePing(b)
		l.send(wire.FramePong, p)
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
	return fmt.Errorf("a %s on the control connection", f)
}

// acked ends a write of ours.
func (l *link) acked(b []byte) error {
	k, err := wire.DecodeAck(b)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ops[k.Transfer]
	switch {
	case o == nil || o.kind != "write" || !k.Refused && !o.whole:
		return fmt.Errorf("an ack of transfer %d, which is not to be acked", k.Transfer)
	case k.Refused:
		l.end(o, agent.Refused(k.Reason))
	default:
		l.end(o, nil)
	}
	return nil
}

// serve queues the answer to a peer's read.
func (l *link) serve(b []byte) error {
	r, err := wire.DecodeReadRequest(b)
	if err != nil {
		return err
	}
	j := &job{
		data:   wire.ReadData{Transfer: r.Transfer, Part: r.Part, Last: r.Last, Bytes: uint32(wire.Sum(r.Ranges))},
		ranges: r.Ranges,
	}
	if err := l.inside(r.Ranges); err != nil {
		j.ranges = nil
		j.data.Bytes, j.data.Refused, j.data.Reason = 0, true, clip(err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving++; l.serving > maxServing {
		return fmt.Errorf("more than %d parts of reads are waiting", maxServing)
	}
	n := l.lanes[r.Transfer%uint64(len(l.lanes))]
	n.flows.Add(flowKey{read: true, epoch: r.Transfer}, j)
	n.wake.Signal()
	return nil
}

// inside says why ranges are not within our registered memory, or nil.
func (l *link) inside(ranges []wire.Range) error {
	regions := l.a.memory()
	for _, r := range ranges {
		if err := regions.Inside(r.Region, r.Offset, r.Length); err != nil {
			return err
		}
	}
	return nil
}

// writeControl sends what is queued, and pings, until the queue is closed and empty.
func (l *link) writeControl() {
	defer l.control.Close()
	tick := time.NewTicker(l.a.o.Ping)
	defer tick.Stop()
	for seq := uint64(0); ; {
		select {
		case <-l.out.Wake():
		case <-tick.C:
			seq++
			l.send(wire.FramePing, wire.Ping{Seq: seq})
		}
		frames, closed := l.out.Take()
		bufs := net.Buffers(frames)
		if _, err := bufs.WriteTo(l.control); err != nil {
			l.fail(err, false)
			return
		}
		if closed {
			return
		}
	}
}
