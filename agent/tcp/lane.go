package tcp

import (
	"net"
	"sync"

	"kvferry/agent/cut"
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

// lane is one bulk connection. What its two goroutines need for a frame they use again for the
// next one.
type lane struct {
	l     *link
	index int
	conn  net.Conn
	once  sync.Once
	// wake is told of new jobs and of the end; flows is of the link's lock.
	wake  *sync.Cond
	flows fair.Queue[flowKey, *job]

	out outgoing
	in  incoming
}

func newLane(l *link, index int, c net.Conn) *lane {
	return &lane{
		l: l, index: index, conn: c, wake: sync.NewCond(&l.mu),
		out: outgoing{v: newVector(c, true)},
		in:  incoming{v: newVector(c, false), next: make(map[uint64]uint32)},
	}
}

func (n *lane) close() {
	n.once.Do(func() { _ = n.conn.Close() }) // its reader and writer see the end
}

// outgoing is the frame that is being sent.
type outgoing struct {
	op     *op        // of a write
	write  wire.Write // likewise
	data   wire.ReadData
	ranges []wire.Range // of our memory
	notice []byte

	part cut.Part
	head []byte
	v    *vector
}

// send sends frames until the link ends.
func (n *lane) send() {
	for n.nextFrame() {
		err := n.sendFrame()
		if o := n.out.op; o != nil {
			n.l.mu.Lock()
			n.l.idle(o)
			n.l.mu.Unlock()
		}
		if err != nil {
			n.l.broken(n, err)
			return
		}
	}
}

// nextFrame waits for a frame to send. Its transfer is busy until it is sent.
func (n *lane) nextFrame() bool {
	l := n.l
	l.mu.Lock()
	defer l.mu.Unlock()
	j, ok := n.flows.Next((*job).dead)
	for ; !ok && l.cause == nil; j, ok = n.flows.Next((*job).dead) {
		n.wake.Wait()
	}
	if l.cause != nil {
		return false
	}
	f := &n.out
	f.op, f.notice = j.op, nil
	if j.op == nil {
		l.serving--
		f.data, f.ranges = j.data, j.ranges
		n.flows.Served(true)
		return true
	}
	o := j.op
	o.cut.NextInto(&f.part, l.limits())
	last := f.part.Last
	f.ranges = f.part.Local
	f.write = wire.Write{Transfer: o.number, Part: o.parts, Last: last, Epoch: o.t.Epoch, Ranges: f.part.Remote}
	if last && o.t.Notice != nil {
		f.notice = o.t.Notice
		f.write.HasNotice, f.write.Notice = true, uint32(len(f.notice))
	}
	o.busy, o.parts, o.whole = true, o.parts+1, last
	n.flows.Served(last)
	return true
}

// sendFrame sends the frame straight from registered memory.
func (n *lane) sendFrame() error {
	f, regions := &n.out, n.l.a.memory()
	var sum wire.Sum32
	if n.l.a.o.Checksum {
		sum = sumOf(regions, f.ranges)
		sum.Add(f.notice)
	}
	f.header(sum)
	f.v.reset()
	f.v.add(f.head)
	for _, r := range f.ranges {
		f.v.add(regions.Bytes(r.Region, r.Offset, r.Length))
	}
	f.v.add(f.notice)
	return f.v.write()
}

// header writes the frame up to its bytes.
func (f *outgoing) header(sum wire.Sum32) {
	if f.op == nil {
		f.data.Sum = sum
		f.head = wire.AppendFrame(f.head[:0], wire.FrameData, &f.data)
		return
	}
	f.write.Sum = sum
	f.head = wire.AppendFrame(f.head[:0], wire.FrameWrite, &f.write)
}

// sumOf is the checksum of ranges that are inside the regions.
func sumOf(regions cut.Regions, ranges []wire.Range) (s wire.Sum32) {
	s.Add(nil) // so that a sum of nothing is one
	for _, r := range ranges {
		s.Add(regions.Bytes(r.Region, r.Offset, r.Length))
	}
	return s
}
