package mem

import (
	"errors"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/wire"
)

// errEnding stops a transfer in its middle because the pair ends.
var errEnding = errors.New("mem: the pair ends")

// add begins a transfer.
func (e *end) add(kind string, t *agent.Transfer) error {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	if e.pair.cause != nil {
		return agent.Lost(e.pair.causeLocked(e))
	}
	key := flowKey{epoch: t.Epoch}
	if kind == "read" {
		key = flowKey{read: true, epoch: t.ID}
	}
	e.jobs.Add(key, &op{kind: kind, t: t, cut: cut.NewCutter(t)})
	e.wake.Signal()
	return nil
}

// notify tells the peer a payload, unless the pair ends.
func (e *end) notify(payload []byte) {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	if e.pair.cause == nil {
		e.other().tell(payload)
	}
}

func (e *end) other() *end {
	if e.pair.ends[0] == e {
		return e.pair.ends[1]
	}
	return e.pair.ends[0]
}

// tell gives our side a notice of the peer's. The caller may change its own copy.
func (e *end) tell(payload []byte) {
	e.a.events.Push(agent.Notice{Peer: e.other().a.hello.Life, Payload: append([]byte{}, payload...)})
}

// carry moves the transfers that this end began, until the pair ends.
func (e *end) carry() {
	for {
		o, ok := e.next()
		if !ok {
			break
		}
		p := o.cut.Next(cut.Limits{Ranges: e.a.o.FrameRanges, Bytes: uint64(e.a.o.FrameBytes)})
		err := e.move(o, p)
		if errors.Is(err, errEnding) {
			break
		}
		finished := p.Last || err != nil
		e.served(finished)
		if finished {
			e.a.done(o.kind, o.t, err)
		}
	}
	e.abandon()
}

// next waits for a transfer whose turn it is.
func (e *end) next() (*op, bool) {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	for e.pair.cause == nil {
		if o, ok := e.jobs.Next(never); ok {
			return o, true
		}
		e.wake.Wait()
	}
	return nil, false
}

func never(*op) bool { return false }

func (e *end) served(finished bool) {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	e.jobs.Served(finished)
}

// abandon ends what is left with an error.
func (e *end) abandon() {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	lost := agent.Lost(e.pair.causeLocked(e))
	for o, ok := e.jobs.Next(never); ok; o, ok = e.jobs.Next(never) {
		e.jobs.Served(true)
		e.a.done(o.kind, o.t, lost)
	}
}

// headerBytes is what a frame costs at the gate before its grant is looked at.
const headerBytes = 64

// move moves one part.
func (e *end) move(o *op, p cut.Part) error {
	from := e
	if o.kind == "read" {
		from = e.other()
	}
	for left := headerBytes; left > 0; {
		n, err := from.pace(left)
		if err != nil {
			return err
		}
		left -= n
	}
	if o.kind == "read" {
		return e.moveRead(p)
	}
	return e.moveWrite(o, p)
}

func (e *end) moveRead(p cut.Part) error {
	peer := e.other()
	if err := peer.inside(p.Remote); err != nil {
		return agent.Refused(err.Error())
	}
	return e.copy(e, p.Local, peer, p.Remote)
}

// moveWrite asks the peer's grants first, and gives the notice last. // PIPE-32
func (e *end) moveWrite(o *op, p cut.Part) error {
	peer := e.other()
	err := peer.inside(p.Remote)
	if err == nil {
		err = peer.a.grants.Enter(o.t.Epoch, e.a.hello.Life, p.Remote, peer)
	}
	if err != nil {
		return agent.Refused(err.Error())
	}
	defer peer.a.grants.Leave(o.t.Epoch, peer)
	if err := e.copy(peer, p.Remote, e, p.Local); err != nil {
		return err
	}
	if p.Last && o.t.Notice != nil {
		peer.tell(o.t.Notice)
	}
	return nil
}

func (e *end) inside(ranges []wire.Range) error {
	regions := e.a.memory()
	for _, r := range ranges {
		if err := regions.Inside(r.Region, r.Offset, r.Length); err != nil {
			return err
		}
	}
	return nil
}

// copy copies ranges from one side's memory to the other's, as fast as the giving side's pace
// allows. It stops where the pair ends.
func (e *end) copy(to *end, tos []wire.Range, from *end, froms []wire.Range) error {
	dst, src := to.a.memory(), from.a.memory()
	for i := range tos {
		d := dst.Bytes(tos[i].Region, tos[i].Offset, tos[i].Length)
		s := src.Bytes(froms[i].Region, froms[i].Offset, froms[i].Length)
		for len(d) > 0 {
			n, err := from.pace(len(d))
			if err != nil {
				return err
			}
			copy(d, s[:n])
			d, s = d[n:], s[n:]
		}
	}
	return nil
}

// pace waits until some of n bytes may leave us.
func (e *end) pace(n int) (int, error) {
	k, err := e.a.o.Pace(e.pair.done, n)
	if err != nil {
		e.pair.fail(e, err)
		return 0, errEnding
	}
	select {
	case <-e.pair.done:
		return 0, errEnding
	default:
		return k, nil
	}
}
