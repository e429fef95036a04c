package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a time as settings have it: a number of seconds, with a fraction where wanted.
type Seconds float64

// SecondsOf is d in seconds. Below a hundred days, Duration gives d again to the nanosecond.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration is s to the nearest nanosecond.
func (s Seconds) Duration() time.Duration {
	return time.Duration(math.Round(float64(s) * float64(time.Second)))
}

// String is s without an exponent, as it stands in a file.
func (s Seconds) String() string { return decimal(float64(s)) }

// MarshalYAML writes s without an exponent, which would not be read again.
func (s Seconds) MarshalYAML() ([]byte, error) { return []byte(s.String()), nil }

// decimal writes a number without an exponent.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// fraction takes decimal numbers with or without a fraction, and no other notation.
func fraction(s string) (f float64, ok bool) {
	digits := strings.TrimLeft(s, "+-")
	before, after, dotted := strings.Cut(digits, ".")
	ok = len(s)-len(digits) <= 1 && isDigits(before) && (!dotted || isDigits(after)) && (before == "0" || before[0] != '0')
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
