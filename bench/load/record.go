package load

import (
	"fmt"
	"sync"
	"time"
)

// record adds up what came of the requests. It is safe for concurrent use.
type record struct {
	mu             sync.Mutex
	start, end     time.Time
	running        int
	ok, given      int
	failed         int
	prompt, output int
	first, between histogram
	whole          histogram
	errors         map[string]*Errors
	unchecked      []heard
}

// heard is what is kept of an answer until it is checked.
type heard struct {
	index        int
	text, reason string
	broken       bool // only a part of it came
}

func newRecord() *record { return &record{errors: map[string]*Errors{}} }

func (r *record) began() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running++
	if r.start.IsZero() {
		r.start = time.Now()
	}
}

func (r *record) ended(i int, a answer, keep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.end = time.Now()
	if keep && (a.failure == nil || a.text != "") {
		r.unchecked = append(r.unchecked, heard{index: i, text: a.text, reason: a.reason, broken: a.failure != nil})
	}
	if a.failure != nil {
		if a.failure.given {
			r.given++
			return
		}
		r.failed++
		addError(r.errors, a.failure)
		return
	}
	r.ok++
	r.prompt += a.prompt
	r.output += a.output
	r.whole.add(a.whole)
	if a.first > 0 {
		r.first.add(a.first)
	}
	for _, gap := range a.gaps {
		r.between.add(gap)
	}
}

// addError counts a failure under its kind and keeps the first one's words.
func addError(errors map[string]*Errors, f *Failure) {
	e := errors[f.Kind]
	if e == nil {
		e = &Errors{Kind: f.Kind, Clear: f.Clear, Example: f.Message}
		errors[f.Kind] = e
	}
	e.Count++
	e.Clear = e.Clear && f.Clear
}

// progress is one line on how far it is.
func (r *record) progress(o Options) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := ""
	if o.Requests > 0 {
		of = fmt.Sprintf(" of %d", o.Requests)
	}
	rate := 0.0
	if !r.start.IsZero() {
		rate = float64(r.ok) / time.Since(r.start).Seconds()
	}
	return fmt.Sprintf("%d%s answered, %d failed, %d running, %.1f answers/s", r.ok, of, r.failed, r.running, rate)
}
