//go:build linux

package shm

import (
	"errors"
	"fmt"
	"os"

	"kvferry/agent"
	"kvferry/wire"
)

// The most that a peer may have waiting here: parts, and writes that it began and did not end.
const (
	maxQueued = 4 * windowParts
	maxOpen   = 64 << 10
)

// step is how much is copied between two looks whether the link ended.
const step = 256 << 10

// headerBytes is what a part costs at the pace before its grant is looked at.
const headerBytes = 64

var (
	// errEnding stops a job because the link ends.
	errEnding = errors.New("shm: the link ends")
	// errGivenUp is why what was copied is not good.
	errGivenUp = errors.New("the peer has given the connection up")
)

// incoming is a write of the peer's.
type incoming struct {
	number  uint64
	epoch   uint64
	next    uint32 // index of the next part
	pending int    // parts that wait or are copied
	whole   bool   // the last part came
	refused bool
	// held says that all of it landed, and that it may be told once those before it were. Until
	// then the epoch is not quiet.
	held      bool
	bytes     uint64 // of the part that landed last, which is acked then
	hasNotice bool
	notice    []byte
}

// over says that nothing more is to land.
func (in *incoming) over() bool { return in.pending == 0 && (in.whole || in.refused) }

// receive is an epoch that the peer writes.
type receive struct {
	flow   flow
	writes []*incoming // in the order in which their notices are told
}

// part is a job: to copy a part of a write.
type part struct {
	partRecord
	l  *link
	in *incoming
}

// receiver is what the link's lock keeps of what the peer writes.
type receiver struct {
	writes map[uint64]*incoming
	epochs map[uint64]*receive
	opened uint64 // the last write that began
	notice []byte // what came of the notice of the next part
	queued int
	ending bool // a part was given up, so that nothing after it is to be told
	free   []*part
}

func newReceiver() receiver {
	return receiver{writes: make(map[uint64]*incoming), epochs: make(map[uint64]*receive)}
}

// listen takes the peer's records until the link ends, and sleeps while there are none.
func (l *link) listen() {
	var bell [8]byte
	for !l.ended.Load() {
		if err := l.drain(); err != nil {
			l.fail(err, true)
			return
		}
		if !l.consumer.doze() {
			continue
		}
		if _, err := l.bell.Read(bell[:]); err != nil {
			if !errors.Is(err, os.ErrClosed) {
				l.fail(fmt.Errorf("bell: %w", err), true)
			}
			return
		}
	}
}

// drain takes what is in the peer's ring, and then sends what waited for room in ours.
func (l *link) drain() error {
	for !l.ended.Load() {
		b, err := l.consumer.take()
		if err == nil && b != nil {
			err = l.handleRecord(b)
		}
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
	}
	l.mu.Lock()
	defer l.unlock()
	if l.consumer.hungry() {
		l.producer.owed = true
	}
	return nil
}

func (l *link) handleRecord(b []byte) error {
	switch kind := le.Uint32(b[4:]); kind {
	case recordPart:
		return l.takePart(b)
	case recordNotice:
		return l.takeNotice(b)
	case recordAck:
		return l.acked(b)
	default:
		return broken("kind %d", kind)
	}
}

func (l *link) takeNotice(b []byte) error {
	piece, err := decodeNotice(b)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.notice)+len(piece) > wire.MaxNotice {
		return broken("a notice of more than %d bytes", wire.MaxNotice)
	}
	l.notice = append(l.notice, piece...)
	return nil
}

// takePart queues a part to be copied, unless an earlier one of its write was refused.
func (l *link) takePart(b []byte) error {
	l.mu.Lock()
	defer l.unlock()
	p := l.newPart()
	if err := decodePart(b, &p.partRecord); err != nil {
		return err
	}
	notice := l.notice
	if l.notice = nil; len(notice) != int(p.notice) {
		return broken("a notice of %d bytes, of which %d came", p.notice, len(notice))
	}
	in, err := l.writeOf(p)
	if err != nil {
		return err
	}
	if in == nil || in.refused {
		l.free = append(l.free, p)
		return l.ack(ackRecord{number: p.number, bytes: p.bytes, refused: true, reason: "an earlier part was refused"})
	}
	if in.whole = p.last; p.hasNotice {
		in.hasNotice, in.notice = true, append([]byte{}, notice...)
	}
	if l.queued++; l.queued > maxQueued {
		return fmt.Errorf("more than %d parts are waiting", maxQueued)
	}
	in.next++
	in.pending++
	p.in = in
	l.busy++
	l.a.jobs.push(&l.epochs[p.epoch].flow, p)
	return nil
}

// newPart gives a part to fill.
func (l *link) newPart() *part {
	if i := len(l.free) - 1; i >= 0 {
		p := l.free[i]
		l.free = l.free[:i]
		return p
	}
	return &part{l: l}
}

// writeOf finds the write that a part belongs to, or begins it. Nil is one that was refused, and
// is forgotten.
func (l *link) writeOf(p *part) (*incoming, error) {
	in := l.writes[p.number]
	switch {
	case in == nil && p.index > 0 && p.number <= l.opened:
		return nil, nil
	case in == nil && p.index == 0: // in any order: an epoch's second write waits while others begin
		if len(l.writes) >= maxOpen {
			return nil, fmt.Errorf("more than %d writes are begun and not ended", maxOpen)
		}
		return l.openWrite(p), nil
	case in == nil || in.whole || !in.refused && in.next != p.index || in.epoch != p.epoch:
		return nil, fmt.Errorf("part %d of write %d, out of turn", p.index, p.number)
	}
	return in, nil
}

func (l *link) openWrite(p *part) *incoming {
	in := &incoming{number: p.number, epoch: p.epoch}
	l.opened = max(l.opened, p.number)
	l.writes[p.number] = in
	e := l.epochs[p.epoch]
	if e == nil {
		e = &receive{}
		l.epochs[p.epoch] = e
	}
	e.writes = append(e.writes, in)
	return in
}

// ack queues an ack. As many as there are parts under way are all that an agent's peer can owe.
func (l *link) ack(k ackRecord) error {
	if len(l.acks) > maxQueued {
		return fmt.Errorf("more than %d acks that the peer does not take", maxQueued)
	}
	l.acks = append(l.acks, k)
	return nil
}

// run copies one part, if it is granted.
func (p *part) run(w *worker) {
	entered, err := p.l.land(p, w)
	p.l.landed(p, entered, err)
}

// land copies a part. The checks come before any byte. // PIPE-32
func (l *link) land(p *part, w *worker) (entered bool, err error) {
	if err := l.pace(headerBytes); err != nil {
		return false, err
	}
	own := l.a.memory()
	for i := range p.pairs {
		q := &p.pairs[i]
		err := own.Inside(q.toRegion, q.to, q.length)
		if err == nil {
			err = l.peer.regions.Inside(q.fromRegion, q.from, q.length)
		}
		if err != nil {
			return false, agent.Refused(err.Error())
		}
	}
	w.ranges = ranges(w.ranges[:0], p.pairs)
	if err := l.a.grants.Enter(p.epoch, l.hello.Life, w.ranges, l); err != nil {
		return false, agent.Refused(err.Error())
	}
	return true, l.copyPairs(p.pairs, w)
}

// copyPairs copies out of the peer's memory into ours. It is good only if the peer had not given
// the link up when all was copied.
func (l *link) copyPairs(pairs []pair, w *worker) error {
	own := l.a.memory()
	for i := range pairs {
		p := &pairs[i]
		to := own.Bytes(p.toRegion, p.to, p.length)
		from := l.peer.regions.Bytes(p.fromRegion, p.from, p.length)
		if err := l.copyRange(to, from, w); err != nil {
			return err
		}
	}
	fence(&w.fence)
	if l.peer.door.closed().Load() != 0 {
		l.failSoon(errGivenUp)
		return errEnding
	}
	return nil
}

func (l *link) copyRange(to, from []byte, w *worker) error {
	for len(to) > 0 {
		n := min(len(to), step)
		if l.a.o.Pace != nil {
			var err error
			if n, err = l.paced(n); err != nil {
				return err
			}
		}
		if l.ended.Load() {
			return errEnding
		}
		move(to[:n], from[:n], &w.fence)
		to, from = to[n:], from[n:]
	}
	return nil
}

// pace waits until n bytes may be copied out of the peer's memory.
func (l *link) pace(n int) error {
	for n > 0 && l.a.o.Pace != nil {
		k, err := l.paced(n)
		if err != nil {
			return err
		}
		n -= k
	}
	if l.ended.Load() {
		return errEnding
	}
	return nil
}

func (l *link) paced(n int) (int, error) {
	k, err := l.a.o.Pace(l.done, l.hello.Life, n)
	if err != nil {
		l.fail(err, true)
		return 0, errEnding
	}
	return k, nil
}

// landed ends a part: it is acked, or, where it completes a write, told and acked in the order of
// the epoch's writes.
func (l *link) landed(p *part, entered bool, err error) {
	l.mu.Lock()
	defer l.unlock()
	defer l.leave()
	in := p.in
	in.pending--
	l.queued--
	k := ackRecord{number: p.number, bytes: p.bytes}
	switch {
	case l.cause != nil:
	case errors.Is(err, errEnding):
		l.ending = true
	case err != nil:
		in.refused = true
		k.refused, k.reason = true, err.Error()
		l.acks = append(l.acks, k)
	case in.over() && !in.refused:
		in.held, in.bytes, entered = true, p.bytes, false
	default:
		l.acks = append(l.acks, k)
	}
	l.tell(in.epoch)
	if entered {
		l.a.grants.Leave(in.epoch, l)
	}
	p.in = nil
	l.free = append(l.free, p)
}

// tell tells an epoch's writes that landed, as far as none before them is still under way.
func (l *link) tell(epoch uint64) {
	e := l.epochs[epoch]
	for l.cause == nil && !l.ending && len(e.writes) > 0 && e.writes[0].over() {
		in := e.writes[0]
		e.writes = e.writes[1:]
		delete(l.writes, in.number)
		if !in.held {
			continue // it was refused
		}
		if in.hasNotice {
			l.a.events.Push(agent.Notice{Peer: l.hello.Life, Payload: in.notice})
		}
		l.acks = append(l.acks, ackRecord{number: in.number, bytes: in.bytes})
		l.a.grants.Leave(epoch, l)
	}
	if len(e.writes) == 0 {
		delete(l.epochs, epoch)
	}
}

// abandon forgets the peer's writes. It is called under the lock, when nothing is copied.
func (l *link) abandon() {
	for _, in := range l.writes {
		if in.held {
			l.a.grants.Leave(in.epoch, l)
		}
	}
	clear(l.writes)
}
