package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/agent/frame"
	"kvferry/wire"
)

// maxOpen is how many writes a peer may have begun and not ended on one bulk connection.
const maxOpen = 64 << 10

// incoming is the frame that is being received.
type incoming struct {
	head [wire.FrameHeader]byte
	body []byte
	// write is a write's header, part the part of a read of ours that bytes are for.
	write wire.Write
	part  cut.Part
	v     *vector
	// next is the next part of each write that goes on.
	next map[uint64]uint32
}

// receive takes the peer's bulk frames until the connection ends.
func (n *lane) receive() {
	for {
		f, err := n.readHeader()
		if err == nil {
			err = n.take(f, n.in.body)
		}
		if err != nil {
			n.stopped(err)
			return
		}
	}
}

// readHeader reads a frame up to its bytes.
func (n *lane) readHeader() (wire.Frame, error) {
	in := &n.in
	if _, err := io.ReadFull(n.conn, in.head[:]); err != nil {
		return 0, err
	}
	f, size, err := wire.ParseHeader(in.head[:])
	if err != nil {
		return 0, err
	}
	if size > maxShake {
		return 0, fmt.Errorf("a %s of %d bytes, where %d are the most", f, size, maxShake)
	}
	if cap(in.body) < size {
		in.body, err = frame.Bytes(n.conn, size)
		return f, err
	}
	in.body = in.body[:size]
	_, err = io.ReadFull(n.conn, in.body)
	return f, frame.NoEOF(err)
}

// stopped ends the link because nothing more can be received. A peer that broke the protocol
// is told so; where the connection broke the control connection may know why.
func (n *lane) stopped(err error) {
	var broken *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broken) {
		n.l.broken(n, err)
		return
	}
	n.l.fail(fmt.Errorf("bulk connection %d: %w", n.index, err), true)
}

func (n *lane) take(f wire.Frame, b []byte) error {
	switch f {
	case wire.FrameWrite:
		if err := n.in.write.Decode(b); err != nil {
			return err
		}
		return n.takeWrite(&n.in.write)
	case wire.FrameData:
		d, err := wire.DecodeReadData(b)
		if err != nil {
			return err
		}
		return n.takeData(d)
	}
	return fmt.Errorf("a %s on a bulk connection", f)
}

// takeWrite lands one part of a write, or refuses it.
func (n *lane) takeWrite(w *wire.Write) error {
	next, open := n.in.next[w.Transfer]
	switch {
	case w.Part > 0 && !open:
		return n.drain(w) // an earlier part was refused, and the peer told
	case w.Part != next:
		return fmt.Errorf("part %d of write %d where %d is next", w.Part, w.Transfer, next)
	case len(n.in.next) >= maxOpen:
		return fmt.Errorf("more than %d writes are begun and not ended", maxOpen)
	}
	// The checks come before any byte is read. // PIPE-32
	err := n.l.inside(w.Ranges)
	if err == nil {
		err = n.l.a.grants.Enter(w.Epoch, n.l.hello.Life, w.Ranges, n.l)
	}
	if err != nil {
		delete(n.in.next, w.Transfer)
		n.l.send(wire.FrameAck, wire.Ack{Transfer: w.Transfer, Refused: true, Reason: clip(err.Error())})
		return n.drain(w)
	}
	defer n.l.a.grants.Leave(w.Epoch, n.l)
	return n.landWrite(w)
}

// landWrite reads a write's bytes into the blocks; then, after its last part, its notice is
// told and the write acknowledged, in this order.
func (n *lane) landWrite(w *wire.Write) error {
	sum, err := n.land(w.Ranges, w.Sum.Made)
	if err != nil {
		return err
	}
	var notice []byte
	if w.HasNotice {
		notice, err = frame.Bytes(n.conn, int(w.Notice))
	}
	if err != nil {
		return err
	}
	if w.Sum.Made {
		sum.Add(notice)
	}
	if sum != w.Sum {
		return errChanged
	}
	if !w.Last {
		n.in.next[w.Transfer] = w.Part + 1
		return nil
	}
	delete(n.in.next, w.Transfer)
	if w.HasNotice {
		n.l.a.events.Push(agent.Notice{Peer: n.l.hello.Life, Payload: notice})
	}
	n.l.send(wire.FrameAck, wire.Ack{Transfer: w.Transfer})
	return nil
}

// errChanged: the transfer does not succeed, and nothing else that came this way is trusted.
var errChanged = errors.New("bytes changed on their way: the checksum of a frame is another")

// land reads bytes into ranges that are inside our memory, and sums what is there then.
func (n *lane) land(ranges []wire.Range, summed bool) (sum wire.Sum32, err error) {
	regions, v := n.l.a.memory(), n.in.v
	v.reset()
	for _, r := range ranges {
		v.add(regions.Bytes(r.Region, r.Offset, r.Length))
	}
	if err := v.read(); err != nil || !summed {
		return sum, err
	}
	return sumOf(regions, ranges), nil
}

// fillEach fills the pieces one after another.
func fillEach(r io.Reader, bufs [][]byte) error {
	for _, b := range bufs {
		if _, err := io.ReadFull(r, b); err != nil {
			return frame.NoEOF(err)
		}
	}
	return nil
}

// drain reads past a part that is refused.
func (n *lane) drain(w *wire.Write) error {
	return n.skip(wire.Sum(w.Ranges) + uint64(w.Notice))
}

func (n *lane) skip(bytes uint64) error {
	_, err := io.CopyN(io.Discard, n.conn, int64(bytes))
	return frame.NoEOF(err)
}

// takeData lands one part of a read of ours.
func (n *lane) takeData(d wire.ReadData) error {
	o, err := n.reading(d)
	if err != nil {
		return err
	}
	if o == nil {
		return n.skip(uint64(d.Bytes)) // an earlier part was refused
	}
	if !d.Refused {
		var sum wire.Sum32
		if sum, err = n.land(n.in.part.Local, d.Sum.Made); err == nil && sum != d.Sum {
			err = errChanged
		}
	}
	l := n.l
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil: // the link ends, and the read with it
	case d.Refused:
		l.end(o, agent.Refused(d.Reason))
	case d.Last:
		l.end(o, nil)
	}
	return err
}

// reading finds the read that a part belongs to, with the part, or gives nil where that has ended
// before. We alone end it, but for the end of the link, which waits for us.
func (n *lane) reading(d wire.ReadData) (*op, error) {
	l := n.l
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ops[d.Transfer]
	if o == nil && d.Transfer <= l.next && d.Part > 0 {
		return nil, nil
	}
	if o == nil || o.kind != "read" || d.Part != o.parts || d.Transfer%uint64(len(l.lanes)) != uint64(n.index) {
		return nil, fmt.Errorf("part %d of read %d, which was not asked for", d.Part, d.Transfer)
	}
	p := &n.in.part
	o.cut.NextInto(p, l.limits())
	if !d.Refused && (uint64(d.Bytes) != p.Bytes || d.Last != p.Last) {
		return nil, fmt.Errorf("part %d of read %d has %d bytes where %d were asked for",
			d.Part, d.Transfer, d.Bytes, p.Bytes)
	}
	o.parts++
	return o, nil
}
