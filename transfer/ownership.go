package transfer

// Ownership is the ONE record of who may free a request's blocks on the prefill side
// (PIPE-15). It is acquired with the first slice and completed with the last; the blocks are
// released by it alone, once, when the request has ended and nothing reads or writes them any
// more. Whether a transfer is going on is asked of this record and of nothing else.
type Ownership struct {
	phase phase
	uses  int
}

type phase uint8

const (
	phaseIdle      phase = iota // no slice has left
	phaseAcquired               // from the first slice on
	phaseCompleted              // the last slice may leave, or has
	phaseReleased
)

// Acquire takes the blocks for the transfer; later calls change nothing.
func (o *Ownership) Acquire() {
	if o.phase == phaseIdle {
		o.phase = phaseAcquired
	}
}

// Complete marks that every block is computed. It reports whether this call did it, so that
// what follows from it happens once.
func (o *Ownership) Complete() bool {
	if o.phase >= phaseCompleted {
		return false
	}
	o.phase = phaseCompleted
	return true
}

// Reopen takes back what Complete and Acquire said, when the blocks were given to others before
// the last slice left: sent says whether any slice has.
func (o *Ownership) Reopen(sent bool) {
	switch {
	case o.phase == phaseReleased:
	case sent:
		o.phase = phaseAcquired
	default:
		o.phase = phaseIdle
	}
}

// Use counts one more reader or writer of the blocks: a forward pass, or a slice from the
// moment it is due and before any wait it does (PIPE-17).
func (o *Ownership) Use() { o.uses++ }

// Done ends a use.
func (o *Ownership) Done() {
	if o.uses == 0 {
		panic("transfer: a use of blocks ended twice")
	}
	o.uses--
}

// InFlight reports whether anything reads or writes the blocks.
func (o *Ownership) InFlight() bool { return o.uses > 0 }

// Release frees the blocks of an ended request if nothing is in flight. It reports true
// exactly once.
func (o *Ownership) Release() bool {
	if o.uses > 0 || o.phase == phaseReleased {
		return false
	}
	o.phase = phaseReleased
	return true
}

// Acquired reports whether a slice was taken and the blocks are not released.
func (o *Ownership) Acquired() bool {
	return o.phase == phaseAcquired || o.phase == phaseCompleted
}
