package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/runner"
	"kvferry/telemetry"
	"kvferry/transfer"
	"kvferry/wire"
)

// errStopped answers a request that comes when the loop has ended.
var errStopped = errors.New("the engine is stopping")

// loop is the one goroutine that owns an engine's machine. Forward passes run on a second
// one, so that a long pass delays no message, cancel or timer.
type loop struct {
	machine *engine.Engine
	run     runner.Runner
	agent   agent.Agent // nil in an aggregated engine
	lists   *lists
	slots   *slots
	reads   map[uint64]*reading // pulls' reads that are out
	metrics *telemetry.Engine
	observe func(engine.Record)
	log     *slog.Logger

	began    time.Time
	commands chan func(now int64)
	passes   chan engine.Compute
	results  chan engine.Computed
	written  *written
	answers  map[string]*answer
	stopped  chan struct{}  // closed when the loop has ended
	computed sync.WaitGroup // of the goroutine that computes
}

// answer is where a request's tokens go. It is shared by the loop, which fills it, and the
// request's HTTP handler.
type answer struct {
	*queue[engine.Output] // Token, then one Finish
	leg                   engine.Leg
	came                  int64
	first                 bool
}

func (l *loop) now() int64 { return int64(time.Since(l.began)) }

// serve runs until ctx ends.
func (l *loop) serve(ctx context.Context) {
	defer close(l.stopped)
	l.computed.Go(func() { l.computing(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-l.commands:
			f(l.now())
		case ev := <-l.agentEvents():
			l.agentEvent(l.now(), ev)
		case <-l.written.news:
			l.machine.Step(l.now(), l.written.take())
		case res := <-l.results:
			l.machine.Step(l.now(), res)
		case <-timer.C:
		}
		now := l.now()
		if l.machine.Deadline() <= now {
			l.machine.Tick(now)
		}
		for outs := l.machine.Outputs(); len(outs) > 0; outs = l.machine.Outputs() {
			for _, o := range outs {
				l.perform(now, o)
			}
		}
		timer.Reset(l.untilDeadline())
	}
}

// untilDeadline is how long the machine has nothing to do of its own accord.
func (l *loop) untilDeadline() time.Duration {
	d := l.machine.Deadline()
	if d == transfer.Never {
		return time.Hour
	}
	return max(0, time.Duration(d-l.now()))
}

func (l *loop) agentEvents() <-chan agent.Event {
	if l.agent == nil {
		return nil
	}
	return l.agent.Events()
}

// submit hands a request to the machine. Its answer is filled from then on.
func (l *loop) submit(r engine.Request) (*answer, error) {
	a := &answer{queue: newQueue[engine.Output](), leg: r.Leg}
	err := l.do(func(now int64) error {
		if l.answers[r.ID] != nil {
			return engine.ErrDuplicate
		}
		a.came = now
		l.answers[r.ID] = a
		l.machine.Step(now, engine.Submit{Request: r})
		return nil
	})
	return a, err
}

// abort cancels a request, if it is still here.
func (l *loop) abort(id string, cause error) {
	_ = l.do(func(now int64) error { // a loop that has stopped has nothing left to cancel
		l.machine.Step(now, engine.Abort{ID: id, Cause: cause})
		return nil
	})
}

// forget gives up a lease.
func (l *loop) forget(id string, nonce uint64) {
	_ = l.do(func(now int64) error {
		l.machine.Step(now, engine.Forget{Request: id, Nonce: nonce})
		return nil
	})
}

// counts tells what the engine holds.
func (l *loop) counts() (c engine.Counts, peers int, err error) {
	err = l.do(func(int64) error {
		c, peers = l.machine.Counts(), l.machine.Peers()
		return nil
	})
	return c, peers, err
}

// do runs f on the loop's goroutine and waits for it.
func (l *loop) do(f func(now int64) error) error {
	done := make(chan error, 1)
	select {
	case l.commands <- func(now int64) { done <- f(now) }:
		return <-done
	case <-l.stopped:
		return errStopped
	}
}

// perform carries out one of the machine's outputs.
func (l *loop) perform(now int64, o engine.Output) {
	switch o := o.(type) {
	case engine.Compute:
		l.passes <- o
	case engine.Token:
		l.token(now, o)
	case engine.Finish:
		l.finish(o)
	case engine.Record:
		l.record(o)
	case engine.Connect:
		l.agent.Connect(o.Addr)
	case engine.Copy:
		l.agent.Write(l.lists.transfer(o))
	case engine.SetSlot:
		l.slots.set(o.Slot, o.Value)
	case engine.Read:
		l.read(now, o)
	case engine.ReadSlots:
		l.slots.waiting = append(l.slots.waiting, o)
		l.readSlots()
	case engine.Noted:
		l.noted(o)
	case engine.Verify:
		l.machine.Step(now, engine.Verified{Epoch: o.Epoch, Slice: o.Slice, Writer: o.Writer, Sum: l.lists.verify(o)})
	case transfer.Notify:
		if l.lists.peers[o.Peer] == nil {
			l.metrics.NotificationFailed() // it is lost with its connection
		}
		l.agent.Notify(o.Peer, o.Msg.Append(nil))
	case transfer.Grant:
		l.agent.Grant(o.Epoch, o.Peer, l.lists.ranges(o.Blocks))
	case transfer.Revoke:
		l.agent.Revoke(o.Epoch)
	case transfer.Drop:
		l.agent.Drop(o.Peer, o.Err)
	}
}

func (l *loop) token(now int64, o engine.Token) {
	a := l.answers[o.Request]
	if a == nil {
		return
	}
	if !a.first {
		a.first = true
		l.metrics.FirstToken(time.Duration(now - a.came).Seconds())
	}
	l.metrics.Token()
	a.put(o)
}

func (l *loop) finish(o engine.Finish) {
	a := l.answers[o.Request]
	if a == nil {
		return
	}
	delete(l.answers, o.Request)
	outcome := outcomeOf(o.Err)
	l.metrics.Ended(legName(a.leg), outcome, o.Prompt)
	switch {
	case o.Err == nil && a.leg == engine.PrefillLeg:
		l.metrics.Sent(time.Duration(o.Transfer.Hidden).Seconds(), time.Duration(o.Transfer.Exposed).Seconds())
	case o.Err != nil:
		l.log.Info("request failed", "request", o.Request, "leg", legName(a.leg), "outcome", outcome, "err", o.Err)
		if cause, ok := transferCause(o.Err); ok {
			l.metrics.TransferFailed(cause)
		}
	}
	a.put(o)
}

func (l *loop) record(o engine.Record) {
	if o.What == transfer.SliceLanded {
		direction := "out"
		if a := l.answers[o.Request]; a != nil && a.leg == engine.DecodeLeg {
			direction = "in"
		}
		l.metrics.Landed(direction, o.Bytes)
	}
	if l.observe != nil {
		l.observe(o)
	}
}

// agentEvent translates what the agent tells for the machine.
func (l *loop) agentEvent(now int64, ev agent.Event) {
	switch ev := ev.(type) {
	case agent.PeerUp:
		parallel, blocks, err := l.lists.peerUp(ev.Hello)
		if err != nil {
			l.log.Warn("peer refused", "peer", ev.Hello.Life, "err", err)
			l.agent.Drop(ev.Hello.Life, err)
			l.machine.Step(now, engine.ConnectFailed{Addr: ev.Addr, Err: err})
			return
		}
		l.machine.Step(now, engine.PeerUp{
			Addr: ev.Addr, Peer: ev.Hello.Life, PoolBlocks: blocks, Parallel: parallel,
			Slots: int(ev.Hello.Slots.Count), LeaseDuration: ev.Hello.Slots.Duration,
		})
	case agent.ConnectFailed:
		l.machine.Step(now, engine.ConnectFailed{Addr: ev.Addr, Err: ev.Err})
	case agent.PeerLost:
		l.lists.peerLost(ev.Peer)
		l.machine.Step(now, engine.PeerLost{Peer: ev.Peer, Err: ev.Err})
	case agent.Done:
		l.done(now, ev)
	case agent.Revoked:
		l.machine.Step(now, engine.EpochRevoked{Epoch: ev.Epoch})
	case agent.Notice:
		msg, err := wire.DecodeMessage(ev.Payload)
		if err != nil {
			l.log.Warn("peer sent what cannot be read", "peer", ev.Peer, "err", err)
			l.agent.Drop(ev.Peer, err)
			return
		}
		l.machine.Step(now, engine.Message{Peer: ev.Peer, Msg: msg})
	}
}
