package chat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// globals are what a template finds beside the messages: what transformers gives it, but for tools
// and documents, which are none, and the guard.
func globals(g *guard, day time.Time) map[string]jinja.Value {
	day = time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, time.UTC)
	all := map[string]jinja.Value{
		"tools": jinja.None(), "documents": jinja.None(), "add_generation_prompt": jinja.NewBool(true),
	}
	for name, f := range map[string]func(args []jinja.Value) (jinja.Value, error){
		"raise_exception": raise,
		"range":           numbers,
		"strftime_now":    func(args []jinja.Value) (jinja.Value, error) { return strftime(args, day) },
		callStep:          checked(g.step),
		callEnter:         checked(g.enter),
		callLeave:         checked(g.leave),
		callFilter: func([]jinja.Value) (jinja.Value, error) {
			return jinja.Undefined(), errors.New("map with a filter's name is not supported")
		},
		callMade: func(args []jinja.Value) (jinja.Value, error) {
			return jinja.NewBool(false), g.made(length(args[0]))
		},
	} {
		all[name] = jinja.NewCallable(name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return f(args) })
	}
	return all
}

// checked makes a call that is always false of one of the guard's.
func checked(f func() error) func([]jinja.Value) (jinja.Value, error) {
	return func([]jinja.Value) (jinja.Value, error) { return jinja.NewBool(false), f() }
}

// length is how long a text or a list is.
func length(v jinja.Value) int {
	switch {
	case v.IsString():
		return len(v.AsString())
	case v.IsList():
		return v.AsList().Len()
	}
	return 0
}

// RaisedError is what a template says by raise_exception.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return e.Message }

func raise(args []jinja.Value) (jinja.Value, error) {
	e := &RaisedError{"it refuses these messages"}
	if len(args) > 0 && args[0].IsString() {
		e.Message = args[0].AsString()
	}
	return jinja.Undefined(), e
}

// numbers is range.
func numbers(args []jinja.Value) (jinja.Value, error) {
	bounds := []int64{0, 0, 1}
	for i, a := range args {
		if !a.IsInt() || i >= len(bounds) {
			return jinja.Undefined(), errors.New("range takes one to three integers")
		}
		bounds[i] = a.AsInt()
	}
	switch {
	case len(args) == 0 || bounds[2] == 0:
		return jinja.Undefined(), errors.New("range takes one to three integers, and no step of 0")
	case len(args) == 1:
		bounds[0], bounds[1] = 0, bounds[0]
	}
	var out []jinja.Value
	for n := bounds[0]; bounds[2] > 0 && n < bounds[1] || bounds[2] < 0 && n > bounds[1]; n += bounds[2] {
		if len(out) == maxRange {
			return jinja.Undefined(), &LimitError{fmt.Sprintf("a range has more than %d numbers", maxRange)}
		}
		out = append(out, jinja.NewInt(n))
	}
	return jinja.NewList(out), nil
}

// layouts are the parts of a date by strftime's letters.
var layouts = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "d": "02", "e": "_2", "j": "002", "-d": "2", "-m": "1",
	"b": "Jan", "h": "Jan", "B": "January", "a": "Mon", "A": "Monday", "p": "PM",
	"H": "15", "I": "03", "M": "04", "S": "05", "Z": "", "z": "",
	"F": "2006-01-02", "T": "15:04:05", "R": "15:04", "D": "01/02/06",
}

// strftime writes a date as Python does in the C locale.
func strftime(args []jinja.Value, at time.Time) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.Undefined(), errors.New("strftime_now takes a format")
	}
	var b strings.Builder
	for rest := args[0].AsString(); rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		n := 1
		if strings.HasPrefix(after, "-") {
			n = 2
		}
		if len(after) < n {
			return jinja.Undefined(), fmt.Errorf("strftime_now: %s ends in the middle of a letter", strconv.Quote(rest))
		}
		layout, known := layouts[after[:n]]
		switch {
		case after[:n] == "%":
			b.WriteByte('%')
		case known:
			b.WriteString(at.Format(layout))
		default:
			return jinja.Undefined(), fmt.Errorf("strftime_now: %%%s is not supported", after[:n])
		}
		rest = after[n:]
	}
	return jinja.NewString(b.String()), nil
}
