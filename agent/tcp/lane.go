package tcp

import (
	"net"
	"sync"

	"kvferry/agent/fair"
	"kvferry/wire"
)

// flowKey names what is sent in order: an epoch's writes, or the parts of one read.
type flowKey struct {
	read  bool
	epoch uint64 // or the peer's number of the read
}

// job is something to send: a write of ours, or one answer to a read.
type job struct {
	op     *op
	data   wire.ReadData
	ranges []wire.Range
}

func (j *job) dead() bool { return j.op != nil && j.op.dead }

// lane is one bulk connection.
type lane struct {
	l     *link
	index int
	conn  net.Conn
	once  sync.Once
	// wake is told of new jobs and of the end; flows is of the link's lock.
	wake  *sync.Cond
	flows fair.Queue[flowKey, *job]

	bufs   net.Buffers       // of send: reused frame after frame
	pieces [][]byte          // of receive: likewise
	whole  [][]byte          // the same, to be summed
	in     map[uint64]uint32 // of receive: the next part of each write that goes on
}

func newLane(l *link, index int, c net.Conn) *lane {
	return &lane{
		l: l, index: index, conn: c, wake: sync.NewCond(&l.mu),
		in: make(map[uint64]uint32),
	}
}

func (n *lane) close() {
	n.once.Do(func() { _ = n.conn.Close() }) // its reader and writer see the end
}

// send sends frames until the link ends.
func (n *lane) send() {
	for {
		f, ok := n.nextFrame()
		if !ok {
			return
		}
		err := n.write(f)
		if f.op != nil {
			n.l.mu.Lock()
			n.l.idle(f.op)
			n.l.mu.Unlock()
		}
		if err != nil {
			n.l.broken(n, err)
			return
		}
	}
}

// frame is one bulk frame to send.
type frame struct {
	op     *op        // of a write
	write  wire.Write // likewise
	data   wire.ReadData
	ranges []wire.Range // of our memory
	notice []byte
}

// header is the frame up to its bytes.
func (f *frame) header(sum wire.Sum32) []byte {
	if f.op == nil {
		f.data.Sum = sum
		return wire.Pack(wire.FrameData, f.data)
	}
	f.write.Sum = sum
	return wire.Pack(wire.FrameWrite, f.write)
}

// nextFrame waits for a frame to send. Its transfer is busy until it is sent.
func (n *lane) nextFrame() (frame, bool) {
	l := n.l
	l.mu.Lock()
	defer l.mu.Unlock()
	j, ok := n.flows.Next((*job).dead)
	for ; !ok && l.cause == nil; j, ok = n.flows.Next((*job).dead) {
		n.wake.Wait()
	}
	if l.cause != nil {
		return frame{}, false
	}
	if j.op == nil {
		l.serving--
		n.flows.Served(true)
		return frame{data: j.data, ranges: j.ranges}, true
	}
	o := j.op
	p := o.cut.Next(l.limits())
	f := frame{op: o, ranges: p.Local, write: wire.Write{
		Transfer: o.number, Part: o.parts, Last: p.Last, Epoch: o.t.Epoch, Ranges: p.Remote,
	}}
	if p.Last && o.t.Notice != nil {
		f.notice = o.t.Notice
		f.write.HasNotice, f.write.Notice = true, uint32(len(f.notice))
	}
	o.busy, o.parts, o.whole = true, o.parts+1, p.Last
	n.flows.Served(p.Last)
	return f, true
}

// write sends a frame straight from registered memory.
func (n *lane) write(f frame) error {
	regions := n.l.a.memory()
	bufs := append(n.bufs[:0], nil) // the header
	for _, r := range f.ranges {
		bufs = append(bufs, regions.Bytes(r.Region, r.Offset, r.Length))
	}
	if len(f.notice) > 0 {
		bufs = append(bufs, f.notice)
	}
	bufs[0] = f.header(n.sum(bufs[1:]))
	n.bufs = bufs[:0]
	_, err := bufs.WriteTo(n.conn)
	return err
}

// sum is the checksum of what a frame of ours carries, where one was asked for.
func (n *lane) sum(pieces [][]byte) (s wire.Sum32) {
	if !n.l.a.o.Checksum {
		return s
	}
	return sumOf(pieces)
}

func sumOf(pieces [][]byte) (s wire.Sum32) {
	s.Add(nil) // so that a sum of nothing is one
	for _, p := range pieces {
		s.Add(p)
	}
	return s
}
