package sim

import (
	"fmt"
	"strings"

	"kvferry/wire"
)

// beatFault is what happens to the heartbeats between two nodes, and to their answers.
type beatFault struct {
	kind  Kind // Mute, Lag or Echo
	until int64
	after int64
}

func (w *world) disturb(f Fault) {
	p := w.paths[w.nodeNamed(f.Node).index][w.nodeNamed(f.Peer).index]
	p.beats = beatFault{kind: f.Kind, until: w.now + f.For, after: f.Lateness}
}

// disturbs lets a fault strike a heartbeat or its answer, and says whether that keeps it.
func (e *end) disturbs(to *end, point Point, payload []byte) bool {
	w, f := e.l.w, e.l.path.beats
	if point != AtHeartbeat && point != AtAnswered || f.until <= w.now {
		return false
	}
	w.logf("fault %s", f.kind)
	if f.kind != Mute {
		w.after(w.plan.Cluster.Latency+f.after, func() { to.p.hear(to, payload) })
	}
	return f.kind != Echo
}

// describeSet says what a heartbeat brings.
func describeSet(m *wire.Heartbeat) string {
	var b strings.Builder
	if m.Full {
		b.WriteString(" full")
	}
	fmt.Fprintf(&b, " version %d", m.Version)
	for _, l := range m.Joined {
		fmt.Fprintf(&b, " +%s/%d", l.Request, l.Attempt)
	}
	for _, l := range m.Left {
		fmt.Fprintf(&b, " -%s/%d", l.Request, l.Attempt)
	}
	return b.String()
}

func describeAck(m *wire.HeartbeatAck) string {
	if m.Resync {
		return "resync"
	}
	s := fmt.Sprintf("renewed version %d", m.Version)
	for _, r := range m.Refused {
		s += fmt.Sprintf(", not %s/%d: %s", r.Lease.Request, r.Lease.Attempt, r.Reason)
	}
	return s
}
