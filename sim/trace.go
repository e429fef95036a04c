package sim

import (
	"encoding/json"
	"io"
)

// Trace is a run in the JSON that Chrome's tracing and Perfetto open: a process a node, with
// tracks for forward passes, copies and control messages, and a track a request that shows its
// state.
type Trace struct {
	events []traceEvent
	tracks map[track]int
	since  map[track]int64 // when the state that a request's track shows began
	copies int
}

type track struct {
	node int
	name string
}

// traceEvent is one event of the trace format; times are microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	PID      int            `json:"pid"`
	TID      int            `json:"tid"`
	TS       float64        `json:"ts"`
	Dur      float64        `json:"dur,omitempty"`
	Scope    string         `json:"s,omitempty"`
	Category string         `json:"cat,omitempty"`
	ID       int            `json:"id,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

func newTrace() *Trace { return &Trace{tracks: map[track]int{}, since: map[track]int64{}} }

func micros(ns int64) float64 { return float64(ns) / 1000 }

// on gives an event its place. A track is named when it is first used.
func (t *Trace) on(n *node, name string, e traceEvent) {
	key := track{n.index, name}
	id, known := t.tracks[key]
	if !known {
		id = len(t.tracks) + 1
		t.tracks[key] = id
		t.events = append(t.events, traceEvent{
			Name: "thread_name", Phase: "M", PID: n.index, TID: id, Args: map[string]any{"name": name},
		})
	}
	e.PID, e.TID = n.index, id
	t.events = append(t.events, e)
}

// span is something that took time, one thing after another on its track. A nil trace keeps
// nothing, here and below.
func (t *Trace) span(n *node, track, name string, from, to int64) {
	if t != nil {
		t.on(n, track, traceEvent{Name: name, Phase: "X", TS: micros(from), Dur: micros(to - from)})
	}
}

// copied is a copy that has ended; copies overlap.
func (t *Trace) copied(n *node, name string, from, to int64) {
	if t == nil {
		return
	}
	t.copies++
	for _, e := range []traceEvent{{Phase: "b", TS: micros(from)}, {Phase: "e", TS: micros(to)}} {
		e.Name, e.Category, e.ID = name, "copy", t.copies
		t.on(n, "copies", e)
	}
}

// mark is an instant.
func (t *Trace) mark(n *node, track, name string, at int64) {
	if t != nil {
		t.on(n, track, traceEvent{Name: name, Phase: "i", TS: micros(at), Scope: "t"})
	}
}

// state ends the state that a request was in, if any, and begins the next.
func (t *Trace) state(n *node, request, was string, at int64) {
	if t == nil {
		return
	}
	key := track{n.index, request}
	if was != nowhere {
		t.span(n, request, was, t.since[key], at)
	}
	t.since[key] = at
}

// Write writes the trace of a plan's run.
func (t *Trace) Write(to io.Writer, of Plan) error {
	var names []traceEvent
	for i, name := range of.Cluster.names() {
		names = append(names, traceEvent{Name: "process_name", Phase: "M", PID: i, Args: map[string]any{"name": name}})
	}
	return json.NewEncoder(to).Encode(map[string]any{
		"traceEvents": append(names, t.events...), "displayTimeUnit": "ms",
	})
}
