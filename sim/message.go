package sim

import (
	"fmt"

	"kvferry/engine"
	"kvferry/wire"
)

// notify sends a control message. It is lost only with its link, unless a fault loses it.
func (p *proc) notify(to wire.Life, m wire.Message) {
	w := p.w
	r, point := w.about(m)
	if reg, ok := m.(*wire.Register); ok && !reg.Read {
		p.granted(reg.Epoch, r)
	}
	w.note(string(point), p.node.index, r, 0)
	e := p.linkTo(to)
	if e == nil {
		return
	}
	w.logf("%s tells %s: %s", p.node.name, w.nodeOf(to).name, describe(m))
	w.trace.mark(p.node, "control", describe(m), w.now)
	payload := m.Append(nil)
	_, other := e.l.side(p)
	if ack, ok := m.(*wire.HeartbeatAck); ok {
		p.renewed(to, ack)
	}
	if e.disturbs(other, point, payload) {
		return
	}
	struck := w.strikes(r, point)
	nth := uint64(w.passed[pointKey{r, point}])
	at := w.now + w.plan.Cluster.Latency + w.jitter('m', uint64(p.node.index)<<32|uint64(r), nth<<8|uint64(point[0]))
	for _, f := range struck {
		switch f.Kind {
		case Delay:
			at += f.For
		case Lose:
			return
		case Corrupt:
			payload = corrupted(m, f.Field)
		case Duplicate:
			e.replay(other, payload, f.For)
		}
	}
	e.control.send(w, at, func() int64 {
		other.p.hear(other, payload)
		return 0
	})
}

// hear takes a message that came over a link.
func (p *proc) hear(e *end, payload []byte) {
	if p.dead || !e.up || p.w.bad != nil {
		return
	}
	m, err := wire.DecodeMessage(payload)
	if err != nil {
		p.w.fail("protocol", "%s got what cannot be decoded: %v", p.node.name, err)
		return
	}
	if r, ok := m.(*wire.Result); ok && r.Status == wire.StatusOK {
		m = p.hearResult(e, r, payload)
	}
	_, other := e.l.side(p)
	p.deliver(engine.Message{Peer: other.p.life, Msg: m})
}

// hearResult lets a fault strike a slice's notice, which comes over the bulk connection.
func (p *proc) hearResult(e *end, r *wire.Result, payload []byte) wire.Message {
	w := p.w
	_, other := e.l.side(p)
	w.logf("%s hears from %s: %s", p.node.name, other.p.node.name, describe(r))
	for _, f := range w.strikes(w.indexOf(r.Request), AtResult) {
		switch f.Kind {
		case Duplicate:
			other.replay(e, payload, f.For)
		case Corrupt:
			c := *r
			corruptResult(&c, f.Field)
			return &c
		}
	}
	return r
}

// replay has a peer send a message again after a while: on this link, or on one that the two
// nodes have by then, whatever process runs there. Only a sender on an agent that fences may
// tell a new life what an old one registered: without a fence nothing could refuse the write.
func (e *end) replay(to *end, payload []byte, d int64) {
	w := e.l.w
	from, dst := e.p.node, to.p.node
	sameLife := !w.plan.Cluster.Fencing
	w.after(d, func() {
		if from.proc == nil || dst.proc == nil || w.probing || sameLife && (from.proc != e.p || dst.proc != to.p) {
			return
		}
		for _, l := range from.proc.links {
			mine, other := l.side(from.proc)
			if other.p != dst.proc || !mine.up {
				continue
			}
			mine.control.send(w, w.now+w.plan.Cluster.Latency, func() int64 {
				w.logf("%s replays to %s", from.name, dst.name)
				other.p.hear(other, payload)
				return 0
			})
			return
		}
	})
}

// nobody is the request of what is about none, or about several.
const nobody = -1

// about says which request a message is about, and which point it is.
func (w *world) about(m wire.Message) (int, Point) {
	switch m := m.(type) {
	case *wire.Heartbeat:
		return nobody, AtHeartbeat
	case *wire.HeartbeatAck:
		return nobody, AtAnswered
	case *wire.Clock:
		return nobody, AtClock
	case *wire.Complete:
		return w.indexOf(m.Lease.Request), AtComplete
	case *wire.Announce:
		return w.indexOf(m.Request), AtAnnounce
	case *wire.Register:
		return w.indexOf(m.Request), AtRegister
	case *wire.Withdraw:
		return w.indexOf(m.Request), AtWithdraw
	case *wire.Progress:
		return w.indexOf(m.Request), AtProgress
	case *wire.Result:
		if m.Status == wire.StatusOK {
			return w.indexOf(m.Request), AtResult
		}
		return w.indexOf(m.Request), AtEnding
	}
	panic(fmt.Sprintf("sim: a message of type %T", m))
}

func describe(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Register:
		return fmt.Sprintf("register %s task %d epoch %d", m.Request, m.Task, m.Epoch)
	case *wire.Withdraw:
		return fmt.Sprintf("withdraw %s epoch %d: %s", m.Request, m.Epoch, m.Reason)
	case *wire.Heartbeat:
		return "heartbeat" + describeSet(m)
	case *wire.HeartbeatAck:
		return describeAck(m)
	case *wire.Complete:
		s := fmt.Sprintf("complete %s attempt %d %s", m.Lease.Request, m.Lease.Attempt, m.Status)
		if m.Reason != "" {
			s += ": " + m.Reason
		}
		return s
	case *wire.Announce:
		return fmt.Sprintf("announce %s slice %d", m.Request, m.Slice)
	case *wire.Clock:
		if m.Answered {
			return "the clock"
		}
		return "what does the clock show"
	case *wire.Progress:
		return fmt.Sprintf("progress %s", m.Request)
	case *wire.Result:
		s := fmt.Sprintf("result %s slice %d %s", m.Request, m.Slice, m.Status)
		if m.Last {
			s += fmt.Sprintf(" last of %d", m.Count)
		}
		if m.Reason != "" {
			s += ": " + m.Reason
		}
		return s
	}
	return fmt.Sprintf("%T", m)
}

// Fields lists what a Corrupt can change, by the point that it strikes. Each change is one
// that the receiver can see through by what it knows itself.
var Fields = map[Point][]string{
	AtRegister: {"prompt", "hash", "block", "negative", "groups", "long", "start"},
	AtResult:   {"task", "epoch", "writer", "slice", "count", "short", "early", "aux"},
}

// corrupted is the message as a broken peer sends it.
func corrupted(m wire.Message, field string) []byte {
	switch m := m.(type) {
	case *wire.Register:
		c := *m
		corruptRegister(&c, field)
		return c.Append(nil)
	case *wire.Result:
		c := *m
		corruptResult(&c, field)
		return c.Append(nil)
	}
	return m.Append(nil)
}

func corruptRegister(c *wire.Register, field string) {
	c.Blocks = append([][]int32(nil), c.Blocks...)
	first := append([]int32(nil), c.Blocks[0]...)
	switch field {
	case "prompt":
		c.PromptLen++
	case "hash":
		c.TokenHash[0] ^= 1
	case "block":
		first = append(first[:0:0], 1<<20)
	case "negative":
		first = append(first[:0:0], -1)
	case "groups":
		c.Blocks = c.Blocks[:len(c.Blocks)-1]
	case "long":
		for range 1 << 10 {
			first = append(first, 0)
		}
	case "start":
		c.DstStart = c.PromptLen + 1
	case "swap": // no receiver could see through this one without a checksum
		first[0], first[1] = first[1], first[0]
	}
	if len(c.Blocks) > 0 {
		c.Blocks[0] = first
	}
}

func corruptResult(c *wire.Result, field string) {
	switch field {
	case "task":
		c.Task = 1 << 30
	case "epoch":
		c.Epoch += 1 << 40
	case "writer":
		c.Writer = 7
	case "slice":
		c.Slice = 1 << 20
	case "count":
		c.Last, c.Count = true, c.Slice+7
	case "short":
		c.Last, c.Count = true, c.Slice // one fewer than came
	case "early":
		c.Last, c.Count, c.Aux = true, c.Slice+1, nil
	case "aux":
		c.Aux = nil
	}
}
