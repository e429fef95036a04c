package openai

import (
	"strings"
	"testing"
)

// A request has one beam: asking for more is refused by the parameter's name, and asking for
// one is not.
// req: PIPE-23
func TestOneBeam(t *testing.T) {
	for _, c := range []struct{ one, more, param, why string }{
		{`"use_beam_search":false`, `"use_beam_search":true`, "use_beam_search", "one beam, because KV is handed over in chunks"},
		{`"best_of":1`, `"best_of":2`, "best_of", "must be 1"},
		{`"n":1`, `"n":4`, "n", "must be 1"},
	} {
		if _, err := decodeEither(false, c.one); err != nil {
			t.Errorf("%s: %v", c.one, err)
		}
		_, err := decodeEither(false, c.more)
		if err == nil || err.Status != 400 || err.Param != c.param || !strings.Contains(err.Message, c.why) {
			t.Errorf("%s: got %v", c.more, err)
		}
	}
}
