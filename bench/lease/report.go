package lease

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Goals of the figures for sets of leases.
const (
	GoalBytes = 64  // of a quiet peer's heartbeat
	GoalNanos = 100 // of processor time a lease in a period that is quiet
)

// Report is what was measured. Times are in seconds.
type Report struct {
	Leases   int     `json:"leases"`
	Peers    int     `json:"peers"`
	Duration float64 `json:"duration_seconds"`
	Changes  int     `json:"changes_per_second"`
	Periods  int     `json:"periods"`
	Seed     uint64  `json:"seed"`
	// Quiet is while nothing joins or leaves, Busy while leases come and go and others expire.
	Quiet Pair `json:"quiet"`
	Busy  Pair `json:"busy"`
	// ChangesMade is how many joins and leaves Busy had.
	ChangesMade int    `json:"changes"`
	Expiry      Expiry `json:"expiry"`
	Resync      Resync `json:"resync"`
}

// Pair is the cost of both ways in the same time.
type Pair struct {
	Sets  Cost `json:"sets"`
	Named Cost `json:"named"`
}

// Cost is what one way costs, its changes included.
type Cost struct {
	// BeatBytes is the mean length of a heartbeat, RoundBytes how many bytes of heartbeats all peers send in
	// an interval, AnswerBytes how many come back.
	BeatBytes   float64 `json:"beat_bytes"`
	RoundBytes  float64 `json:"round_bytes"`
	AnswerBytes float64 `json:"round_answer_bytes"`
	// RoundCPU is the processor time of both sides in an interval, LeaseNanos that of one
	// lease in a lease's duration, in ns.
	RoundCPU   float64 `json:"round_cpu_seconds"`
	LeaseNanos float64 `json:"lease_period_ns"`
}

// Expiry is how leases ended that nobody renewed: how many, how much later than their instant
// on the clock, and the processor time of the longest step that ended some.
type Expiry struct {
	Want    int     `json:"want"`
	Leases  int     `json:"leases"`
	Late    float64 `json:"late_seconds"`
	Longest float64 `json:"longest_cpu_seconds"`
}

// Resync is a round in which one peer's set had to be told whole.
type Resync struct {
	Leases int     `json:"leases"`
	Bytes  int64   `json:"round_bytes"`
	CPU    float64 `json:"round_cpu_seconds"`
}

func newCost(m meter, rounds int, o Options) Cost {
	periods := float64(rounds) / 6
	return Cost{
		BeatBytes:   float64(m.bytes) / float64(max(m.beats, 1)),
		RoundBytes:  float64(m.bytes) / float64(rounds),
		AnswerBytes: float64(m.answers) / float64(rounds),
		RoundCPU:    m.cpu.Seconds() / float64(rounds),
		LeaseNanos:  float64(m.cpu.Nanoseconds()) / periods / float64(o.Leases),
	}
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "%d leases of %g s, %d peers; %d joins and leaves a second while busy; %d periods\n\n",
		r.Leases, r.Duration, r.Peers, r.Changes, r.Periods)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "renewal\tbytes a heartbeat\tbytes a round\tanswers\tCPU a round, ms\tns a lease and period\t")
	for _, row := range []struct {
		name string
		c    Cost
	}{
		{"quiet, by sets", r.Quiet.Sets},
		{"quiet, by request", r.Quiet.Named},
		{"busy, by sets", r.Busy.Sets},
		{"busy, by request", r.Busy.Named},
	} {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t\n", row.name, row.c.BeatBytes, row.c.RoundBytes,
			row.c.AnswerBytes, digits(row.c.RoundCPU*1000), digits(row.c.LeaseNanos))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	perChange := 0.0
	if r.ChangesMade > 0 {
		perChange = r.Busy.Sets.RoundCPU * 6 * float64(r.Periods) / float64(r.ChangesMade) * 1e9
	}
	_, err := fmt.Fprintf(w, "\nbusy: %d joins and leaves, %s ns each by sets, with all that goes with it\n"+
		"expiry: %d leases, at most %s ms after their instant; the longest step took %s ms\n"+
		"resync of one peer's %d leases: a round of %d bytes and %s ms\n"+
		"goals: at most %d bytes a quiet heartbeat: %s; under %d ns a lease and period, quiet: %s, busy: %s\n",
		r.ChangesMade, digits(perChange), r.Expiry.Leases, digits(r.Expiry.Late*1000), digits(r.Expiry.Longest*1000),
		r.Resync.Leases, r.Resync.Bytes, digits(r.Resync.CPU*1000),
		GoalBytes, met(r.Quiet.Sets.BeatBytes <= GoalBytes),
		GoalNanos, met(r.Quiet.Sets.LeaseNanos < GoalNanos), met(r.Busy.Sets.LeaseNanos < GoalNanos))
	return err
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

// digits gives three of them.
func digits(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
