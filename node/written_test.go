package node

import (
	"slices"
	"sync"
	"testing"

	"kvferry/engine"
)

// TestWritten: what the runner tells is taken as one, however often it tells, and never makes it
// wait; of a pass before nothing is left.
//
// req: PIPE-01
func TestWritten(t *testing.T) {
	w := newWritten()
	w.begin(engine.Compute{Pass: 7, Batch: make([]engine.Work, 3)})
	var told sync.WaitGroup
	for work := range 2 {
		told.Go(func() {
			for through := 1; through <= 100; through++ {
				w.note(work, through) // nobody takes it
			}
		})
	}
	told.Wait()
	if len(w.news) != 1 {
		t.Fatalf("%d are waiting", len(w.news))
	}
	<-w.news
	if got := w.take(); got.Pass != 7 || !slices.Equal(got.Through, []int{100, 100, 0}) {
		t.Errorf("%+v", got)
	}
	w.note(1, 3)
	w.note(2, 1)
	taken := w.take()
	w.note(2, 2)
	if !slices.Equal(taken.Through, []int{100, 100, 1}) {
		t.Errorf("what was taken is %v", taken.Through)
	}
	w.begin(engine.Compute{Pass: 8, Batch: make([]engine.Work, 2)})
	if got := w.take(); got.Pass != 8 || !slices.Equal(got.Through, []int{0, 0}) {
		t.Errorf("a new pass begins with %+v", got)
	}
}
