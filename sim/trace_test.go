package sim

import (
	"encoding/json"
	"testing"
)

// checkTrace reads a trace as its viewers do: every event has its place and phase, spans of a
// track do not overlap, and every copy that begins ends.
func checkTrace(t *testing.T, text string) {
	t.Helper()
	var doc struct {
		TraceEvents []traceEvent `json:"traceEvents"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	ends := map[[2]int]float64{}
	open, named, count := map[int]bool{}, map[[2]int]bool{}, map[string]int{}
	for _, e := range doc.TraceEvents {
		at := [2]int{e.PID, e.TID}
		count[e.Phase]++
		if e.Phase != "M" && !named[at] {
			t.Fatalf("%+v is on a track without a name", e)
		}
		switch e.Phase {
		case "M":
			named[at] = true
		case "X":
			if e.TS < ends[at]-1e-6 {
				t.Fatalf("%+v begins before its track is free at %v", e, ends[at])
			}
			ends[at] = e.TS + e.Dur
		case "b":
			open[e.ID] = true
		case "e":
			if !open[e.ID] {
				t.Fatalf("%+v ends what never began", e)
			}
			delete(open, e.ID)
		case "i":
		default:
			t.Fatalf("%+v has no phase that a viewer knows", e)
		}
	}
	if len(open) > 0 || count["X"] == 0 || count["b"] == 0 || count["i"] == 0 {
		t.Errorf("%d copies do not end; events by phase: %v", len(open), count)
	}
}
