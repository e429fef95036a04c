package lease

import (
	"testing"

	"pgregory.net/rapid"
)

// req: LEASE-14, LEASE-19
//
// TestSlots: a slot has one owner at a time and is given again only after it was freed, whatever
// the random bits are; a nonce is never 0, never longer than 53 bits, never another slot's, and a
// redrawn one is another. Who finds no slot free gets none.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "slots")
		draw := rapid.SampledFrom([]uint64{0, 1, 2, 3, 1 << 53, 1<<53 + 1, 1<<64 - 1})
		s := NewSlots(n, func() uint64 { return draw.Draw(t, "bits") })
		taken := map[int]uint64{}
		fits := func(slot int, nonce uint64) {
			if nonce == 0 || nonce >= 1<<53 {
				t.Fatalf("nonce %d", nonce)
			}
			for other, has := range taken {
				if has == nonce {
					t.Fatalf("slots %d and %d have nonce %d", slot, other, nonce)
				}
			}
			taken[slot] = nonce
		}
		pick := func(t *rapid.T) int {
			if len(taken) == 0 {
				t.Skip("none taken")
			}
			slot := rapid.IntRange(0, n-1).Draw(t, "slot")
			if taken[slot] == 0 {
				t.Skip("not taken")
			}
			return slot
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				slot, nonce, ok := s.Take()
				if ok != (len(taken) < n) {
					t.Fatalf("took a slot: %v, with %d of %d taken", ok, len(taken), n)
				}
				if !ok {
					return
				}
				if slot < 0 || slot >= n || taken[slot] != 0 {
					t.Fatalf("slot %d of %d, taken by %d", slot, n, taken[slot])
				}
				fits(slot, nonce)
			},
			"redraw": func(t *rapid.T) {
				slot := pick(t)
				fits(slot, s.Redraw(slot))
			},
			"free": func(t *rapid.T) {
				slot := pick(t)
				s.Free(slot)
				delete(taken, slot)
			},
			"": func(t *rapid.T) {
				if s.InUse() != len(taken) || len(s.used) != len(taken) {
					t.Fatalf("%d in use with %d nonces, want %d", s.InUse(), len(s.used), len(taken))
				}
			},
		})
	})
}

// TestSlotsMisuse: to free or redraw what is not taken is the caller's mistake.
func TestSlotsMisuse(t *testing.T) {
	for name, misuse := range map[string]func(s *Slots){
		"free twice":      func(s *Slots) { s.Free(0); s.Free(0) },
		"free below":      func(s *Slots) { s.Free(-1) },
		"free above":      func(s *Slots) { s.Free(2) },
		"redraw not held": func(s *Slots) { s.Redraw(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSlots(2, func() uint64 { return 1 })
			if slot, _, ok := s.Take(); slot != 0 || !ok {
				t.Fatalf("took slot %d, %v", slot, ok)
			}
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(s)
		})
	}
}
