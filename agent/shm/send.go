//go:build linux

package shm

import (
	"errors"

	"kvferry/agent"
	"kvferry/agent/fair"
	"kvferry/wire"
)

// How much may be on its way to a peer, in parts and, before the last of them, in bytes.
const (
	windowParts = 64
	windowBytes = 8 << 20
)

// op is a transfer of ours in flight. Its fields are of the link's lock.
type op struct {
	l      *link
	kind   string // write, read
	t      *agent.Transfer
	number uint64
	cut    cutter
	whole  bool  // the last part is on its way, or no further one will be
	err    error // that it was refused
	dead   bool  // Done was told

	// Of a write: the parts that are not acked, and what was sent of the notice.
	index  uint32
	parts  int
	bytes  uint64
	notice int

	// Of a read: its jobs, which are one at a time where the list has words.
	flow    flow
	pending int
	serial  bool
}

// sender is what the link's lock keeps of what we send.
type sender struct {
	producer producer
	flows    fair.Queue[uint64, *op]
	acks     []ackRecord
	parts    int    // not acked
	bytes    uint64 // of them
	// staged is the write whose next part is in stage. Its notice is being sent before.
	staged *op
	stage  partRecord
	record []byte
}

// begin numbers a transfer and puts it in flight. It is called under the lock.
func (l *link) begin(kind string, t *agent.Transfer) *op {
	l.next++
	o := &op{l: l, kind: kind, t: t, number: l.next, cut: cutter{t: t, read: kind == "read"}}
	l.ops[o.number] = o
	return o
}

func (l *link) settle(o *op, err error) {
	o.dead = true
	delete(l.ops, o.number)
	l.a.done(o.kind, o.t, err)
}

// write begins a one-sided write. An epoch's writes are sent one after another.
func (l *link) write(t *agent.Transfer) error {
	l.mu.Lock()
	defer l.unlock()
	if l.cause != nil {
		return agent.Lost(l.cause)
	}
	l.flows.Add(t.Epoch, l.begin("write", t))
	return nil
}

// dropped says that nothing more of a write is to be sent. A notice that was begun must end.
func dropped(o *op) bool { return o.dead || o.err != nil && o.notice == 0 }

// pump puts acks and parts into the ring while there is room. It is called under the lock.
func (l *link) pump() error {
	for len(l.acks) > 0 {
		if ok, err := l.producer.room(ackHeader + maxReason); !ok {
			return err
		}
		l.put(appendAck(l.record[:0], &l.acks[0]))
		l.acks = l.acks[:copy(l.acks, l.acks[1:])]
	}
	for l.parts < windowParts && l.bytes < windowBytes {
		o, ok := l.flows.Next(dropped)
		if !ok {
			return nil
		}
		if ok, err := l.producer.room(maxRecord); !ok {
			return err
		}
		l.advance(o)
	}
	return nil
}

// put puts an encoded record, whose memory it keeps for the next.
func (l *link) put(record []byte) {
	l.record = record
	l.producer.put(record)
}

// advance puts the next part of a write, or a piece of the notice that comes before its last.
func (l *link) advance(o *op) {
	p := &l.stage
	if l.staged != o {
		p.pairs, p.bytes, p.last = o.cut.next(p.pairs[:0], l.a.o.FrameRanges, uint64(l.a.o.FrameBytes))
		l.staged = o
	}
	if p.last && o.notice < len(o.t.Notice) {
		piece := o.t.Notice[o.notice:min(len(o.t.Notice), o.notice+maxPiece)]
		l.put(appendNotice(l.record[:0], piece))
		o.notice += len(piece)
		return
	}
	p.number, p.epoch, p.index = o.number, o.t.Epoch, o.index
	p.hasNotice, p.notice = p.last && o.t.Notice != nil, 0
	if p.last {
		p.notice = uint32(len(o.t.Notice))
	}
	l.put(appendPart(l.record[:0], p))
	l.staged = nil
	o.index++
	o.parts++
	o.bytes += p.bytes
	o.whole = p.last
	l.parts++
	l.bytes += p.bytes
	l.flows.Served(p.last)
}

// acked takes the peer's word that a part was copied, or refused.
func (l *link) acked(b []byte) error {
	k, err := decodeAck(b)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.unlock()
	o := l.ops[k.number]
	if o == nil || o.kind != "write" || o.parts == 0 || k.bytes > o.bytes || o.parts == 1 && k.bytes != o.bytes {
		return broken("an ack of %d bytes of transfer %d, which is not to be acked", k.bytes, k.number)
	}
	o.parts--
	o.bytes -= k.bytes
	l.parts--
	l.bytes -= k.bytes
	if k.refused && o.err == nil {
		o.err = agent.Refused(k.reason)
	}
	if o.parts == 0 && (o.whole || dropped(o)) {
		l.settle(o, o.err)
	}
	return nil
}

// read begins a one-sided read, which we copy ourselves.
func (l *link) read(t *agent.Transfer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return agent.Lost(l.cause)
	}
	o := l.begin("read", t)
	o.serial = hasWords(t)
	l.queue(o)
	return nil
}

// queue queues a job of a read. It is called under the lock.
func (l *link) queue(o *op) {
	o.pending++
	l.busy++
	l.a.jobs.push(&o.flow, o)
}

// run reads one part.
func (o *op) run(w *worker) {
	var err error
	if o.l.nextPart(o, w) {
		err = o.l.readPairs(w)
	}
	o.l.endRead(o, err)
}

// nextPart takes the next part of a read, and lets another worker take the one after it.
func (l *link) nextPart(o *op, w *worker) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil || o.whole {
		return false
	}
	w.pairs, _, o.whole = o.cut.next(w.pairs[:0], l.a.o.FrameRanges, uint64(l.a.o.FrameBytes))
	if !o.whole && !o.serial {
		l.queue(o)
	}
	return true
}

// readPairs copies pairs out of the peer's memory, if they are within it.
func (l *link) readPairs(w *worker) error {
	if err := l.pace(headerBytes); err != nil {
		return err
	}
	for _, p := range w.pairs {
		if err := l.peer.regions.Inside(p.fromRegion, p.from, p.length); err != nil {
			return agent.Refused(err.Error())
		}
	}
	return l.copyPairs(w.pairs, w)
}

func (l *link) endRead(o *op, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.leave()
	o.pending--
	if l.cause != nil {
		return // its end ends the read
	}
	if err != nil && o.err == nil {
		o.err, o.whole = err, true
	}
	switch {
	case errors.Is(o.err, errEnding): // likewise, in a moment
	case !o.whole && o.serial:
		l.queue(o)
	case o.whole && o.pending == 0:
		l.settle(o, o.err)
	}
}

// ranges are where the pairs of a part are to land.
func ranges(to []wire.Range, pairs []pair) []wire.Range {
	for i := range pairs {
		to = append(to, wire.Range{Region: pairs[i].toRegion, Offset: pairs[i].to, Length: pairs[i].length})
	}
	return to
}
