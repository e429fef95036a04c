package wire

import (
	"bytes"
	"testing"
)

// FuzzDecodeMessage: no frame panics the decoder, and one that is accepted is the encoding
// of what it was decoded to, so both sides read every frame alike.
func FuzzDecodeMessage(f *testing.F) {
	aux := &Aux{First: TokenLogprob{Token: 3, Logprob: -1}, Top: []TokenLogprob{{Token: 4, Logprob: -2}}}
	for _, m := range []Message{
		&Register{Request: "r", Task: 1, Epoch: 2, PromptLen: 33, DstStart: 4, Blocks: [][]int32{{1, 2}, {}, {3}}},
		&Register{},
		&Result{Request: "r", Task: 1, Epoch: 2, Slice: 3, Last: true, Count: 4, Status: StatusOK, Bytes: 5, Aux: aux},
		&Result{Status: StatusFailed, Reason: "it broke"},
		&Withdraw{Request: "r", Epoch: 9, Reason: "gone"},
		&Progress{Request: "r", Task: 7, Epoch: 9},
		&Heartbeat{Base: 1, Version: 2, Joined: []Lease{{Request: "r", Nonce: 3, Attempt: 4}}, Left: []Lease{{}}},
		&HeartbeatAck{Version: 2, Resync: true, Refused: []LeaseRefusal{{Lease: Lease{Request: "r"}, Reason: "gone"}}},
		&Complete{Lease: Lease{Request: "r", Nonce: 5}, Status: StatusOK},
		&Announce{Request: "r", Slot: 1, Nonce: 2, Last: true, End: 2, Blocks: [][]int32{{1, 2}}, Aux: aux},
		&Clock{Sent: 1, Answered: true, Now: 2},
	} {
		f.Add(m.Append(nil))
	}
	f.Add([]byte{})
	f.Add([]byte{byte(KindRegister), 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			if m != nil {
				t.Fatalf("%#v with the error %v", m, err)
			}
			return
		}
		if got := m.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("%#v encodes to %x, and was decoded of %x", m, got, b)
		}
	})
}
