package node

import (
	"time"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/telemetry"
)

// reading is one READ of blocks that is out.
type reading struct {
	began time.Time
	post  time.Duration // how long handing it to the agent took
	bytes uint64
	descs int
}

// read hands a read to the agent.
func (l *loop) read(_ int64, o engine.Read) {
	r := &reading{began: time.Now()}
	t := l.lists.read(o)
	r.bytes, r.descs = bytesOf(t), len(t.LocalIdx)
	l.reads[o.ID] = r
	l.agent.Read(t)
	r.post = time.Since(r.began)
}

// readSlots sends out the READs of slots that there are cells for.
func (l *loop) readSlots() {
	for {
		t, ok := l.slots.next(l.lists)
		if !ok {
			return
		}
		l.agent.Read(t)
	}
}

// done takes the end of a write, a read, or a read of slots to the machine.
func (l *loop) done(now int64, ev agent.Done) {
	if ev.ID&slotRead != 0 {
		l.machine.Step(now, l.slots.done(ev.ID, ev.Err))
		l.readSlots()
		return
	}
	if r := l.reads[ev.ID]; r != nil {
		delete(l.reads, ev.ID)
		if ev.Err == nil {
			l.metrics.PullDone(time.Since(r.began).Seconds(), r.post.Seconds(), r.bytes, r.descs)
		}
	}
	l.machine.Step(now, engine.CopyDone{ID: ev.ID, Err: ev.Err})
}

// noted counts what the machine tells of leases.
func (l *loop) noted(n engine.Noted) {
	switch n.What {
	case engine.LeasesRenewed:
		l.metrics.Renewed()
	case engine.LeaseExpired:
		l.metrics.LeaseExpired(n.Blocks)
		l.log.Warn("lease expired", "request", n.Request, "blocks", n.Blocks)
	case engine.CompleteIgnored:
		l.metrics.CompleteAfterExpiry()
	case engine.LoadFailed:
		l.metrics.VerificationFailed(n.Reason)
		l.log.Warn("KV load failed", "request", n.Request, "reason", n.Reason)
	case engine.TurnPulled:
		l.metrics.TurnPulled(telemetry.TurnHit)
	case engine.TurnMissed:
		l.metrics.TurnPulled(turnOutcome(n.Reason))
		l.log.Info("turn not used", "request", n.Request, "reason", n.Reason)
	}
}

// turnOutcome is a metric's label for why a turn was not used.
func turnOutcome(reason string) string {
	switch reason {
	case engine.ReasonExpired:
		return telemetry.TurnExpired
	case engine.ReasonOtherPrompt:
		return telemetry.TurnMiss
	}
	return telemetry.TurnFailed
}
