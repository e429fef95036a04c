package engine

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestStopper goes through what is shown and held back, piece by piece.
func TestStopper(t *testing.T) {
	for _, c := range []struct {
		name   string
		stops  []string
		pieces []string
		shown  []string
		rest   string
	}{
		{"no stop strings", nil, []string{"ab", "c"}, []string{"ab", "c"}, ""},
		{"one inside a piece", []string{"lo"}, []string{"hello world"}, []string{"hel|"}, ""},
		{"one over three pieces", []string{"END"}, []string{"aE", "N", "Db"}, []string{"a", "", "|"}, ""},
		{"a false beginning", []string{"END"}, []string{"aEN", "d", "E"}, []string{"a", "ENd", ""}, "E"},
		{"a beginning inside a beginning", []string{"aab"}, []string{"a", "a", "a", "b"}, []string{"", "", "a", "|"}, ""},
		{"the earlier of two", []string{"world", "o w"}, []string{"hello world"}, []string{"hell|"}, ""},
		{"whichever is named first", []string{"o w", "world"}, []string{"hello world"}, []string{"hell|"}, ""},
		{"a stop that another begins with", []string{"ab", "a"}, []string{"xab"}, []string{"x|"}, ""},
		{"half a character", []string{"語"}, []string{"a\xe8", "\xaa", "\x9e"}, []string{"a", "", "|"}, ""},
		{"half of another character", []string{"語"}, []string{"\xe8", "\xaa", "\xad"}, []string{"", "", "\xe8\xaa\xad"}, ""},
		{"the empty text of a control token", []string{"ab"}, []string{"a", "", "c"}, []string{"", "", "ac"}, ""},
	} {
		s := newStopper(c.stops)
		var shown []string
		for _, p := range c.pieces {
			text, stopped := s.push([]byte(p))
			if stopped {
				text = append(text, '|')
			}
			shown = append(shown, string(text))
		}
		if rest := string(s.rest()); strings.Join(shown, ",") != strings.Join(c.shown, ",") || rest != c.rest {
			t.Errorf("%s: shown %q and then %q, want %q and %q", c.name, shown, rest, c.shown, c.rest)
		}
	}
}

// TestStopperShowsUpToTheStop: the text that is shown is the text up to where a stop string
// begins, in the first piece of it that completes one; and nothing is shown that could still
// turn out to be one's beginning.
func TestStopperShowsUpToTheStop(t *testing.T) {
	letters := func(least, most int) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.RuneFrom([]rune("ab")), least, most, -1)
	}
	rapid.Check(t, func(t *rapid.T) {
		stops := rapid.SliceOfN(letters(1, 4), 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOfN(letters(0, 3), 0, 12).Draw(t, "pieces")
		s := newStopper(stops)
		text, shown := "", ""
		for _, p := range pieces {
			text += p
			show, stopped := s.push([]byte(p))
			shown += string(show)
			at := -1
			for _, stop := range stops {
				if i := strings.Index(text, stop); i >= 0 && (at < 0 || i < at) {
					at = i
				}
			}
			if stopped != (at >= 0) {
				t.Fatalf("stopped is %v after %q", stopped, text)
			}
			if stopped {
				if rest := string(s.rest()); shown != text[:at] || rest != "" {
					t.Fatalf("%q: shown %q and then %q, want %q", text, shown, rest, text[:at])
				}
				return
			}
			if !strings.HasPrefix(text, shown) {
				t.Fatalf("shown %q of %q", shown, text)
			}
			for _, stop := range stops {
				for n := 1; n < len(stop); n++ {
					if strings.HasSuffix(text, stop[:n]) && len(shown) > len(text)-n {
						t.Fatalf("shown %q of %q, and %q may begin in it", shown, text, stop)
					}
				}
			}
		}
		if shown += string(s.rest()); shown != text {
			t.Fatalf("shown %q of %q", shown, text)
		}
	})
}
