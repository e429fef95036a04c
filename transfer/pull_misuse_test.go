package transfer

import (
	"errors"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/wire"
)

// pulling is a session with one read in flight.
func pulling() *Pull {
	l := layoutOf(4, 0)
	p := NewPull(PullConfig{
		Layout: l, Tokens: 3, Tables: dstTables(l, 3, 4), Verify: true, Timeout: 12,
		Source: &Source{Blocks: [][]kvcache.BlockID{{0}}, End: 1, Nonce: 9},
	}, 0)
	p.Step(0, PullReady{Peer: life("P"), PoolBlocks: pools(l), Slots: 1})
	return p
}

// What only a broken owner does panics: a read that ends twice or that nobody began, blocks of a
// pass that are taken back, and another nonce for blocks that a reader may be at.
//
// req: LEASE-14
// req: LEASE-15
func TestReadMisusePanics(t *testing.T) {
	const twice = "transfer: a read ended twice"
	for name, c := range map[string]struct {
		want   string
		misuse func()
	}{
		"a read ends twice": {twice, func() {
			p := pulling()
			p.Step(1, ReadDone{})
			p.Step(1, ReadDone{})
		}},
		"a read of a slice that is not there":  {twice, func() { pulling().Step(1, ReadDone{Slice: 1}) }},
		"a read from a rank that is not there": {twice, func() { pulling().Step(1, ReadDone{Writer: 1}) }},
		"blocks of a pass are taken back": {"transfer: blocks in use were taken back", func() {
			o := NewOffer(OfferConfig{Layout: layoutOf(4, 0), PromptLen: 4}, 0)
			o.Step(0, ChunkStarted{})
			o.Step(0, TakenBack{})
		}},
		"a nonce changes under a reader": {"transfer: another nonce for blocks that are announced", func() {
			s := announcing(8)
			s.Step(0, Slotted{Slot: 1, Nonce: 10})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %q", got, c.want)
				}
			}()
			c.misuse()
		})
	}
}

// announcing is a session of which the first block is announced.
func announcing(prompt int) *Send {
	l := layoutOf(4, 0)
	s := NewSend(SendConfig{Layout: l, PromptLen: prompt, Pipelined: true, Timeout: 12}, 0)
	s.Step(0, Registered{
		Peer: life("D"), PoolBlocks: pools(l), HasSlot: true, Nonce: 9,
		Msg: &wire.Register{Epoch: 7, PromptLen: uint32(prompt), Blocks: dstLists(l, prompt), Read: true},
	})
	s.Step(0, ChunkStarted{})
	s.Step(0, ChunkComputed{Chunk: kvcache.Chunk{End: 4, First: true}, Tables: srcTables(l, prompt)})
	return s
}

// TestSlottedWithoutReader: a nonce may change where nobody reads, or will any more.
//
// req: LEASE-14
func TestSlottedWithoutReader(t *testing.T) {
	flying().Step(1, Slotted{Slot: 1, Nonce: 10})
	s := announcing(8)
	s.Step(1, Cancel{Cause: ErrCancelled})
	s.Step(1, Slotted{Slot: 1, Nonce: 10})
	if !s.Ended() {
		t.Error("a cancelled session whose reader may be at it still holds blocks")
	}
}

// TestSlotReadOfNobody: what was shared with others may bring a rank that was not asked for, or an
// answer that comes after the end.
//
// req: LEASE-15
func TestSlotReadOfNobody(t *testing.T) {
	p := pulling()
	p.Step(0, SlotRead{Value: 1}) // the read has not ended, so nobody asked
	p.Step(1, ReadDone{})
	p.Step(1, SlotRead{Writer: 1, Value: 1})
	if p.Phase() != "verifying" {
		t.Fatalf("%s: %v", p.Phase(), p.Err())
	}
	p.Step(1, SlotRead{Value: 9})
	if p.Phase() != "ended" || p.Err() != nil {
		t.Errorf("%s: %v", p.Phase(), p.Err())
	}
}

// TestVerifyError: metrics count by a reason that is one of few words, and what was behind it can be
// taken out.
//
// req: LEASE-17
func TestVerifyError(t *testing.T) {
	for _, c := range []struct {
		err  *VerifyError
		want string
	}{
		{&VerifyError{Writer: 2, Reason: ReasonLapsed}, "lease not verified: lapsed on rank 2"},
		{&VerifyError{Writer: 2, Reason: ReasonSlotRead, Err: ErrTimeout}, "lease not verified: slot read failed on rank 2: transfer timed out"},
		{&VerifyError{Reason: ReasonNoSlot}, "lease not verified: no slot"},
		{&VerifyError{Reason: ReasonFields}, "lease not verified: fields missing"},
	} {
		err := error(&Error{Request: "a1", Cause: c.err})
		var v *VerifyError
		if !errors.As(err, &v) || v.Reason != c.err.Reason || c.err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
		if errors.Is(err, ErrTimeout) != (c.err.Err != nil) {
			t.Errorf("%v: the cause is lost", err)
		}
	}
}

// TestLongCompleteIsCut: what breaks a read may be long; the frame is not.
func TestLongCompleteIsCut(t *testing.T) {
	for name, ev := range map[string]PullEvent{
		"fails": ReadDone{Err: errors.New(strings.Repeat("x", wire.MaxString+1))},
		"ends":  Cancel{Cause: errors.New(strings.Repeat("x", wire.MaxString+1))},
	} {
		p := pulling()
		p.Outputs()
		p.Step(1, ev)
		n, ok := p.Outputs()[0].(Notify)
		if !ok {
			t.Fatalf("%s: no message", name)
		}
		if _, err := wire.DecodeMessage(n.Msg.Append(nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
