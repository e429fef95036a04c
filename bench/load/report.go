package load

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what came of a load. Times are in seconds.
type Report struct {
	URL   string `json:"url"`
	Model string `json:"model"`
	// Loop says how requests came.
	Loop string `json:"loop"`
	Seed uint64 `json:"seed"`
	// Answered had a whole answer, Failed an error, and GivenUp were running when the load was
	// ended by hand.
	Answered int `json:"answered"`
	Failed   int `json:"failed"`
	GivenUp  int `json:"given_up"`
	// Seconds is from the first request to the last answer. What follows counts answered
	// requests alone.
	Seconds      float64 `json:"seconds"`
	Requests     float64 `json:"requests_per_second"`
	PromptTokens float64 `json:"prompt_tokens_per_second"`
	OutputTokens float64 `json:"output_tokens_per_second"`
	// FirstToken is from asking to the first text, Between the time from one piece of text to
	// the next, and Whole from asking to the end.
	FirstToken Times `json:"time_to_first_token"`
	Between    Times `json:"inter_token_latency"`
	Whole      Times `json:"request_latency"`
	// Errors are by kind, the most frequent first.
	Errors []Errors `json:"errors"`
	// Check is nil if nothing was checked.
	Check *CheckReport `json:"check,omitempty"`
}

// Times are percentiles, to a percent.
type Times struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Errors are the failures of one kind.
type Errors struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Clear says that each of them told by itself what was wrong.
	Clear bool `json:"clear"`
	// Example is what one of them said.
	Example string `json:"example"`
}

// CheckReport is what came of comparing the answers.
type CheckReport struct {
	// Right were the same, or the beginning of the same where the answer broke off; Wrong were
	// not; Unchecked could not be compared.
	Right     int      `json:"right"`
	Wrong     int      `json:"wrong"`
	Unchecked int      `json:"unchecked"`
	Examples  []Wrong  `json:"examples,omitempty"`
	Errors    []Errors `json:"errors,omitempty"`
}

// Wrong is an answer that was not what the other server gives.
type Wrong struct {
	// Request is its number in the load, which with the seed gives its prompt; At is the byte
	// where the answers part.
	Request int    `json:"request"`
	At      int    `json:"at"`
	Got     string `json:"got"`
	Want    string `json:"want"`
}

func (r *record) report(o Options, model string) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &Report{
		URL: o.URL, Model: model, Loop: fmt.Sprintf("closed, %d clients", o.Concurrency), Seed: o.Seed,
		Answered: r.ok, Failed: r.failed, GivenUp: r.given, Seconds: r.end.Sub(r.start).Seconds(),
		FirstToken: r.first.summary(), Between: r.between.summary(), Whole: r.whole.summary(), Errors: sorted(r.errors),
	}
	if o.Rate > 0 {
		rep.Loop = fmt.Sprintf("open, %g requests/s", o.Rate)
	}
	if rep.Seconds > 0 {
		rep.Requests = float64(r.ok) / rep.Seconds
		rep.PromptTokens = float64(r.prompt) / rep.Seconds
		rep.OutputTokens = float64(r.output) / rep.Seconds
	}
	return rep
}

func (c *checked) report() *CheckReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &CheckReport{
		Right: c.right, Wrong: c.wrongs, Unchecked: c.unchecked, Examples: c.wrong, Errors: sorted(c.errors),
	}
}

func sorted(byKind map[string]*Errors) []Errors {
	out := []Errors{}
	for _, e := range byKind {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Errors) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// Verdict is an error if an answer was wrong or could not be checked, or if none came at all.
func (r *Report) Verdict() error {
	c := r.Check
	switch {
	case c != nil && c.Wrong > 0:
		return fmt.Errorf("%d answers are wrong", c.Wrong)
	case c != nil && c.Unchecked > 0:
		return fmt.Errorf("%d answers could not be checked", c.Unchecked)
	case r.Answered == 0 && r.Failed > 0:
		return fmt.Errorf("none of %d requests was answered", r.Failed)
	}
	return nil
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, loop %s, seed %d\n", r.URL, r.Model, r.Loop, r.Seed)
	fmt.Fprintf(&b, "%d answered, %d failed, %d given up in %.1f s\n", r.Answered, r.Failed, r.GivenUp, r.Seconds)
	fmt.Fprintf(&b, "%.2f requests/s, %.0f prompt tokens/s, %.0f output tokens/s\n\n",
		r.Requests, r.PromptTokens, r.OutputTokens)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ms\tmean\tp50\tp90\tp99\tmax\t")
	for _, row := range []struct {
		name string
		Times
	}{{"time to first token", r.FirstToken}, {"inter-token latency", r.Between}, {"request latency", r.Whole}} {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n",
			row.name, row.Mean*1000, row.P50*1000, row.P90*1000, row.P99*1000, row.Max*1000)
	}
	t.Flush()
	errorLines(&b, "failed", r.Errors)
	if c := r.Check; c != nil {
		fmt.Fprintf(&b, "\nchecked: %d right, %d wrong, %d not checked\n", c.Right, c.Wrong, c.Unchecked)
		errorLines(&b, "not checked", c.Errors)
		for _, e := range c.Examples {
			fmt.Fprintf(&b, "  request %d parts at byte %d:\n    got  %s\n    want %s\n", e.Request, e.At, e.Got, e.Want)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func errorLines(b *strings.Builder, title string, list []Errors) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, e := range list {
		note := ""
		if !e.Clear {
			note = ", NOT CLEAR"
		}
		fmt.Fprintf(b, "  %d x %s%s, as: %s\n", e.Count, e.Kind, note, e.Example)
	}
}
