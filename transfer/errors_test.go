package transfer

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"kvferry/wire"
)

// TestErrorNamesPeerAndRequest: what an operator reads tells which request and whose fault.
//
// case: 11
func TestErrorNamesPeerAndRequest(t *testing.T) {
	cause := &RemoteError{Status: wire.StatusGone, Reason: "the request has ended"}
	err := error(&Error{Request: "a1", Peer: life("P"), Cause: cause})
	want := "transfer of request a1 with peer " + life("P").String() + ": sender reports gone: the request has ended"
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	var remote *RemoteError
	if !errors.As(err, &remote) || remote != cause {
		t.Error("the cause cannot be taken out of the error")
	}
	err = &Error{Request: "a1", Cause: ErrTimeout}
	if err.Error() != "transfer of request a1: transfer timed out" || !errors.Is(err, ErrTimeout) {
		t.Errorf("%q", err)
	}
}

// TestReasonIsBounded: no error makes a frame long, and none is cut inside a character.
func TestReasonIsBounded(t *testing.T) {
	if got := reason(errors.New("short")); got != "short" {
		t.Errorf("%q", got)
	}
	for pad := range 4 {
		got := reason(errors.New(strings.Repeat("x", pad) + strings.Repeat("語", 400)))
		if len(got) > maxReason || len(got) < maxReason-3 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid UTF-8 is %v", len(got), utf8.ValidString(got))
		}
	}
}

// TestLongReasonsAreCut on every way on which one travels.
func TestLongReasonsAreCut(t *testing.T) {
	long := errors.New(strings.Repeat("x", wire.MaxString+1))
	r := NewReceive(ReceiveConfig{Layout: layoutOf(4, 0), PromptLen: 4, Tables: dstTables(layoutOf(4, 0), 4, 4), Writers: 1}, 0)
	r.Step(0, PeerUp{Peer: life("P")})
	r.Step(0, Cancel{Cause: long})
	s := NewSend(SendConfig{Layout: layoutOf(4, 0), PromptLen: 4}, 0)
	s.Step(0, Registered{Peer: life("D"), Msg: &wire.Register{PromptLen: 4, Blocks: [][]int32{{0}}}, PoolBlocks: []int{1}})
	s.Step(0, Cancel{Cause: long})
	notes := 0
	for _, o := range append(r.Outputs(), s.Outputs()...) {
		n, ok := o.(Notify)
		if !ok {
			continue
		}
		notes++
		if _, err := wire.DecodeMessage(n.Msg.Append(nil)); err != nil {
			t.Errorf("%T cannot be read: %v", n.Msg, err)
		}
	}
	if notes != 4 {
		t.Errorf("%d messages, want the registration, the withdrawal and two results", notes)
	}
}
