package sim

import (
	"fmt"
	"io"
	"time"
)

// Print writes what came of the seeds, and how often every transition was taken.
func (s Summary) Print(to io.Writer, took time.Duration) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(to, "%-12s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("seeds", "%d in %v, %.0f a second", s.Seeds, took.Round(time.Millisecond), float64(s.Seeds)/took.Seconds())
	line("events", "%d in %v of virtual time", s.Events, dur(s.Virtual).Round(time.Second))
	line("requests", "%d served, %d failed as they should", s.Served, s.Failed)
	line("faults", "%d", s.Struck)
	line("hash", "%016x", s.Hash)
	line("violations", "%d", len(s.Failures))
	declared := Transitions()
	line("transitions", "%d of %d taken", len(declared)-len(s.Cover.Untaken()), len(declared))
	for _, t := range declared {
		fmt.Fprintf(to, "  %10d  %s\n", s.Cover.Count(t), t)
	}
	for _, t := range s.Cover.Untaken() {
		line("untaken", "%s", t)
	}
	for _, t := range s.Cover.Undeclared() {
		line("undeclared", "%s", t)
	}
}
