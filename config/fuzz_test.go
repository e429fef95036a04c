package config

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// Whatever a file holds, it is accepted and prints as a file that loads as itself, or every
// fault has a place in it and one line of text.
func FuzzParse(f *testing.F) {
	for _, ending := range []string{".good.yml", ".bad.yml"} {
		for _, path := range corpus(f, ending) {
			f.Add(read(f, path))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := Load(Source{File: "f", Data: data})
		if _, formErr := Parse(data); formErr != nil && err == nil {
			t.Fatalf("Parse refuses what Load takes: %v", formErr)
		}
		if err == nil {
			printed(t, c)
			return
		}
		var e *Error
		if !errors.As(err, &e) || len(e.Faults) == 0 {
			t.Fatalf("%T", err)
		}
		for _, f := range e.Faults {
			if f.Line < 1 || f.Line > bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte("\r"))+2 || f.Column < 1 {
				t.Errorf("no such place: %s", f.In("f"))
			}
			if strings.ContainsAny(f.In("f"), "\n\r") {
				t.Errorf("several lines: %q", f.In("f"))
			}
		}
	})
}
