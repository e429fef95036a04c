package node_test

import (
	"strings"
	"testing"

	"kvferry/engine"
	"kvferry/node"
)

// What is drawn is a token, and another one each time.
func TestNewToken(t *testing.T) {
	a, b := node.NewToken(), node.NewToken()
	if node.CheckToken(a) != nil || a == b || len(a) < 26 {
		t.Errorf("drew %d characters, again the same: %t", len(a), a == b)
	}
}

// A token can travel in a header, and what is none is not told: it may be one with a mistake.
func TestCheckToken(t *testing.T) {
	for _, s := range []string{"a", "!~", strings.Repeat("x", 256)} {
		if err := node.CheckToken(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "two words", "line\n", "\x00secret", "gehe\u00efm", strings.Repeat("secret", 50)} {
		err := node.CheckToken(s)
		if err == nil {
			t.Errorf("%q is accepted", s)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("it is told: %v", err)
		}
		cfg := node.DefaultEngineConfig()
		cfg.Role, cfg.Token = engine.Decode, s
		if err := cfg.Validate(); (err == nil) != (s == "") {
			t.Errorf("an engine with the token %q: %v", s, err)
		}
	}
}
