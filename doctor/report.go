package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Level is how a check came out.
type Level string

// OK needs nothing; Warn costs something, or leaves something out; Fail means that what was asked
// for cannot work here.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Found is what there is, Do what can be done about it; empty where nothing need be.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// Report is all that was looked at.
type Report struct {
	Checks []Check `json:"checks"`
}

func (r *Report) add(name string, level Level, do, found string, args ...any) {
	r.Checks = append(r.Checks, Check{Name: name, Level: level, Found: fmt.Sprintf(found, args...), Do: do})
}

// Failed is how many checks failed.
func (r *Report) Failed() int {
	return len(slices.DeleteFunc(slices.Clone(r.Checks), func(c Check) bool { return c.Level != Fail }))
}

// Text writes a line for each check, and below it what to do.
func (r *Report) Text(w io.Writer) error {
	for _, c := range r.Checks {
		if _, err := fmt.Fprintf(w, "%-4s  %-16s  %s\n", c.Level, c.Name, c.Found); err != nil {
			return err
		}
		if c.Do == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-4s  %-16s  -> %s\n", "", "", c.Do); err != nil {
			return err
		}
	}
	return nil
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
