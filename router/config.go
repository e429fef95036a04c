package router

import "fmt"

// The schedule styles.
const (
	// GenerationFirst asks both engines at once, and prefill pushes the KV.
	GenerationFirst = "generation_first"
	// ContextFirst asks prefill, and with the handle that it answers then decode, which pulls.
	ContextFirst = "context_first"
)

// What becomes of a request whose prefill engine failed before an answer began. case 12
const (
	// PolicyFail answers with the failure.
	PolicyFail = "fail"
	// PolicyOther asks another prefill engine.
	PolicyOther = "other"
	// PolicyLocal gives the whole request to a decode engine, which computes the prompt itself.
	PolicyLocal = "local"
)

// What a Config that leaves it out gets.
const (
	defaultTries    = 2
	defaultLocalCap = 4
)

// Config is how requests are run.
type Config struct {
	// ScheduleStyle is GenerationFirst or ContextFirst; empty is GenerationFirst.
	ScheduleStyle string
	// PrefillFailurePolicy is one of the policies; empty is PolicyFail.
	PrefillFailurePolicy string
	// PrefillTries is how many prefill engines a request is tried on under PolicyOther, the
	// first one included; 0 is 2.
	PrefillTries int
	// LocalCap is how many requests decode engines may have at once under PolicyLocal; 0 is 4.
	LocalCap int
	// Turns is how many conversations are remembered, so that prefill can read a turn's KV from
	// the decode engine that has it; 0 is none. It counts under ContextFirst alone.
	Turns int
}

// Resolve checks the settings and fills in what was left out.
func (c Config) Resolve() (Config, error) {
	switch c.ScheduleStyle {
	case "":
		c.ScheduleStyle = GenerationFirst
	case GenerationFirst, ContextFirst:
	default:
		return c, fmt.Errorf("schedule style %q: want %s or %s", c.ScheduleStyle, GenerationFirst, ContextFirst)
	}
	switch c.PrefillFailurePolicy {
	case "":
		c.PrefillFailurePolicy = PolicyFail
	case PolicyFail, PolicyOther, PolicyLocal:
	default:
		return c, fmt.Errorf("prefill failure policy %q: want %s, %s or %s",
			c.PrefillFailurePolicy, PolicyFail, PolicyOther, PolicyLocal)
	}
	for _, n := range []struct {
		name string
		val  *int
		none int
	}{
		{"prefill tries", &c.PrefillTries, defaultTries}, {"local cap", &c.LocalCap, defaultLocalCap}, {"turns", &c.Turns, 0},
	} {
		if *n.val < 0 {
			return c, fmt.Errorf("%s %d: want 0 or more", n.name, *n.val)
		}
		if *n.val == 0 {
			*n.val = n.none
		}
	}
	return c, nil
}
