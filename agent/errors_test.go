package agent

import (
	"errors"
	"io"
	"strings"
	"testing"

	"kvferry/wire"
)

// An error says what failed, with whom and why, and can be asked for its cause.
//
// case: 11
func TestErrorSaysWhoAndWhy(t *testing.T) {
	err := error(&Error{Op: "write", Peer: wire.Life{0xAB}, Transfer: 42, Addr: "host:1", Cause: Lost(io.EOF)})
	for _, want := range []string{"write 42", "ab00", "host:1", "lost", "EOF"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
	if !errors.Is(err, ErrPeerLost) || !errors.Is(err, io.EOF) || errors.Is(err, ErrRefused) {
		t.Errorf("%v is not what it is", err)
	}
	if s := (&Error{Op: "connect", Addr: "host:1", Cause: io.EOF}).Error(); strings.Contains(s, "peer") || strings.Contains(s, " 0") {
		t.Errorf("%q speaks of what is not known", s)
	}
}

func TestLostAndRefused(t *testing.T) {
	if Lost(nil) != ErrPeerLost {
		t.Error("without a cause")
	}
	if once := Lost(io.EOF); Lost(once) != once {
		t.Error("lost twice")
	}
	if err := Refused("no grant"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no grant") {
		t.Error(err)
	}
}
