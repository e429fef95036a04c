package lease

import "fmt"

// nonceBits is how long a nonce may be to survive JSON numbers that are floats.
const nonceBits = 53

// Slots gives the numbers by which a reader proves its read: a place in the slot memory, and the
// nonce that stands there while the blocks are the request's. The memory is the caller's, which
// stores a nonce when it gets one and 0 before it frees the blocks and then the slot (LEASE-14).
type Slots struct {
	draw   func() uint64
	nonces []uint64 // by slot; 0: free
	free   []int    // a stack
	used   map[uint64]struct{}
}

// NewSlots makes n free slots. draw gives 64 random bits.
func NewSlots(n int, draw func() uint64) *Slots {
	s := &Slots{draw: draw, nonces: make([]uint64, n), free: make([]int, n), used: map[uint64]struct{}{}}
	for i := range s.free {
		s.free[i] = n - 1 - i
	}
	return s
}

// Take gives a slot and its nonce. ok is false when none is free: the request then has no lease
// that could be proved (LEASE-19).
func (s *Slots) Take() (slot int, nonce uint64, ok bool) {
	if len(s.free) == 0 {
		return 0, 0, false
	}
	slot = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return slot, s.fill(slot), true
}

// Redraw gives a taken slot a new nonce, as a preemption asks for; it panics if the slot is not
// taken.
func (s *Slots) Redraw(slot int) uint64 {
	s.check(slot)
	old := s.nonces[slot]
	nonce := s.fill(slot) // while old is in use still, so that it is another
	delete(s.used, old)
	return nonce
}

// Free takes a slot back, whose blocks were freed already; it panics if the slot is not taken.
func (s *Slots) Free(slot int) {
	s.check(slot)
	delete(s.used, s.nonces[slot])
	s.nonces[slot] = 0
	s.free = append(s.free, slot)
}

// InUse is how many slots are taken.
func (s *Slots) InUse() int { return len(s.nonces) - len(s.free) }

func (s *Slots) check(slot int) {
	if slot < 0 || slot >= len(s.nonces) || s.nonces[slot] == 0 {
		panic(fmt.Sprintf("lease: slot %d of %d is not taken", slot, len(s.nonces)))
	}
}

// fill draws the slot's nonce; from one that is taken or 0 it goes on to the next that is not, so
// that it ends whatever draw gives.
func (s *Slots) fill(slot int) uint64 {
	const mask = 1<<nonceBits - 1
	nonce := s.draw() & mask
	for {
		if _, taken := s.used[nonce]; nonce != 0 && !taken {
			break
		}
		nonce = (nonce + 1) & mask
	}
	s.used[nonce] = struct{}{}
	s.nonces[slot] = nonce
	return nonce
}
