package transfer

import (
	"errors"
	"testing"

	"kvferry/wire"
)

// A result of a rank that the sender does not have fails the receive. Nobody is asked to sum up
// what that rank brought: there is no such part of a block.
//
// req: PIPE-12
// req: PIPE-33
func TestChecksumOfNoWriter(t *testing.T) {
	l := layoutOf(4, 0)
	r := NewReceive(ReceiveConfig{
		Request: "r", Epoch: 7, Layout: l, PromptLen: 4, Tables: dstTables(l, 4, 4), Checksum: true, Timeout: 12,
	}, 0)
	r.Step(0, PeerUp{Peer: life("P"), Writers: 2})
	r.Outputs()
	r.Step(0, ResultCame{Peer: life("P"), Msg: &wire.Result{
		Request: "r", Epoch: 7, Writer: 2, Status: wire.StatusOK, Bytes: 32, End: 1,
	}})
	for _, o := range r.Outputs() {
		switch o := o.(type) {
		case Verify:
			t.Errorf("rank %d of 2 is to be verified", o.Writer)
		case Failed:
			if !errors.Is(o.Err, ErrProtocol) {
				t.Errorf("failed by %v, want a protocol violation", o.Err)
			}
			return
		}
	}
	t.Error("the receive goes on")
}

// Without a fence a receive that fails by its last slice's checksum, or while that is summed up,
// must not wait for a confirmation: the sender has nothing left to answer.
//
// req: PIPE-32
// req: PIPE-33
func TestChecksumConfirms(t *testing.T) {
	l := layoutOf(4, 0)
	for name, events := range map[string][]ReceiveEvent{
		"mismatch":             {Verified{Sum: 1}, Revoked{}},
		"cancel while summing": {Cancel{Cause: ErrCancelled}, Revoked{}, Verified{Sum: 7}},
	} {
		r := NewReceive(ReceiveConfig{
			Request: "r", Epoch: 7, Layout: l, PromptLen: 4, Tables: dstTables(l, 4, 4), Checksum: true, Timeout: 12,
		}, 0)
		r.Step(0, PeerUp{Peer: life("P"), Writers: 1})
		r.Step(0, ResultCame{Peer: life("P"), Msg: &wire.Result{
			Request: "r", Epoch: 7, Status: wire.StatusOK, Bytes: 32, End: 1, Last: true, Count: 1, Checksum: 7, Aux: &wire.Aux{},
		}})
		for _, ev := range events {
			r.Step(0, ev)
		}
		if !r.Ended() {
			t.Errorf("%s: the blocks stay for ever", name)
		}
	}
}
