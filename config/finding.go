package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is one thing to say about a setting: a fault, or a warning.
type Finding struct {
	// Place is where in the file it is, or its nearest outer key; zero without a file.
	Place
	// Flag is the flag that set the value, without dashes; such a finding has no place.
	Flag string
	// Path is the key, as context_servers.urls[0]; empty for the file as a whole.
	Path    string
	Message string
}

// Place is a position in a file, both from 1; columns count characters.
type Place struct{ Line, Column int }

// In is the finding as one line, for a file of that name: FILE:LINE:COL: key.path: message.
func (f Finding) In(file string) string {
	var b strings.Builder
	switch {
	case f.Flag != "":
		fmt.Fprintf(&b, "--%s: ", f.Flag)
	case file != "" && f.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", file, f.Line, f.Column)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	return b.String() + f.Message
}

// Error is every fault of a configuration, sorted by place; those of flags come last.
type Error struct {
	// File is the file's name, empty without one.
	File   string
	Faults []Finding
}

// Lines has one line for each fault.
func (e *Error) Lines() []string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.In(e.File)
	}
	return lines
}

func (e *Error) Error() string { return strings.Join(e.Lines(), "\n") }

// faulty makes an error of faults, and none of no faults.
func faulty(file string, faults []Finding) error {
	if len(faults) == 0 {
		return nil
	}
	return &Error{File: file, Faults: faults}
}

// at is a finding about a key.
func at(path, format string, args ...any) Finding {
	return Finding{Path: path, Message: fmt.Sprintf(format, args...)}
}

// sortFindings sorts by place; what has none stays in its order behind the rest. A flag that
// is wrong for several keys in the same way is said once.
func sortFindings(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(btoi(a.Line == 0), btoi(b.Line == 0)),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	said := map[[2]string]bool{}
	return slices.DeleteFunc(all, func(f Finding) bool {
		id := [2]string{f.Flag, f.Message}
		again := f.Flag != "" && said[id]
		said[id] = true
		return again
	})
}

// firstOfKey keeps the first fault of each key: checks go from what a value is to what it is
// good for, and the later ones follow from the earlier.
func firstOfKey(faults []Finding) []Finding {
	seen := map[string]bool{}
	return slices.DeleteFunc(faults, func(f Finding) bool {
		again := seen[f.Path]
		seen[f.Path] = true
		return again
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
