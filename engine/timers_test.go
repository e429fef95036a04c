package engine

import (
	"testing"

	"pgregory.net/rapid"

	"kvferry/transfer"
	"kvferry/wire"
)

// TestTimersWakeInTime moves the deadlines of several sessions back and forth, and asks at
// random instants who is due: nobody too late, and nobody for ever.
//
// req: PIPE-19
func TestTimersWakeInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var timers timers
		var seqs []*seq
		const timeout = 30
		for i := range rapid.IntRange(1, 4).Draw(t, "sessions") {
			s := &seq{number: uint64(i), wake: transfer.Never}
			l := layoutOf(4, 0)
			s.recv = transfer.NewReceive(transfer.ReceiveConfig{Layout: l, PromptLen: 4, Writers: 1, Timeout: timeout}, 0)
			s.recv.Step(0, transfer.PeerUp{Peer: life("P")})
			seqs = append(seqs, s)
			timers.set(s)
		}
		now := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, 12).Draw(t, "pass")
			s := rapid.SampledFrom(seqs).Draw(t, "who")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				s.recv.Step(now, transfer.Cancel{Cause: transfer.ErrCancelled})
			case 1, 2:
				s.recv.Step(now, transfer.ProgressCame{Peer: life("P"), Msg: &wire.Progress{}})
			}
			timers.set(s)
			for {
				due, ok := timers.due(now)
				if !ok {
					break
				}
				due.recv.Tick(now)
				timers.set(due)
			}
			if timers.next() <= now {
				t.Fatalf("at %d the next is due at %d", now, timers.next())
			}
			for _, s := range seqs {
				if d := s.deadline(); d <= now || d < timers.next() {
					t.Fatalf("at %d session %d is due at %d, and the next timer comes at %d", now, s.number, d, timers.next())
				}
			}
		}
	})
}
