package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A duration is the same again after it was a setting in a file.
func TestSecondsKeepDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "ns"))
		s := SecondsOf(d)
		if s.Duration() != d {
			t.Fatalf("%s becomes %s", d, s.Duration())
		}
		if f, ok := fraction(s.String()); !ok || Seconds(f) != s {
			t.Fatalf("%s is written %s, which is read as %v, %t", d, s, f, ok)
		}
	})
}

// One notation is taken, whatever else YAML may have.
func TestFraction(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "30": 30, "+1": 1, "-1": -1, "0.5": 0.5, "2.50": 2.5, "100.001": 100.001} {
		if got, ok := fraction(text); !ok || got != want {
			t.Errorf("%s: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", ".", ".5", "5.", "1e3", "0x1", "030", "00.5", "1_000", "--1", "+-1", "1.2.3", "inf", "nan", "1,5", " 1"} {
		if f, ok := fraction(text); ok {
			t.Errorf("%q is taken as %v", text, f)
		}
	}
}
