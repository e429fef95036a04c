package node

import (
	"slices"
	"sync"

	"kvferry/engine"
)

// written is how far the layers of the pass that is out are written: the goroutine that computes
// notes it, and the loop takes what is new. Notes that the loop does not come to are taken as one,
// so there is never more than one waiting, and nobody waits for the other.
type written struct {
	news chan struct{} // has one element when there may be something new

	mu      sync.Mutex
	pass    uint64
	through []int // by the batch's works
}

func newWritten() *written { return &written{news: make(chan struct{}, 1)} }

// begin forgets the pass before.
func (w *written) begin(c engine.Compute) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass, w.through = c.Pass, make([]int, len(c.Batch))
}

// note is told by the runner that a work's layers below through are written.
func (w *written) note(work, through int) {
	w.mu.Lock()
	w.through[work] = max(w.through[work], through)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// take is what is known now.
func (w *written) take() engine.LayersComputed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return engine.LayersComputed{Pass: w.pass, Through: slices.Clone(w.through)}
}
