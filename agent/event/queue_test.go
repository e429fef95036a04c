package event

import (
	"sync"
	"testing"
	"testing/synctest"

	"kvferry/agent"
)

// Nothing that is pushed blocks or is lost, however late the reader comes; each goroutine's
// events stay in order.
func TestQueueKeepsAllInOrder(t *testing.T) {
	const pushers, each = 8, 500
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		var wg sync.WaitGroup
		for p := range uint64(pushers) {
			wg.Go(func() {
				for i := range uint64(each) {
					if !q.Push(agent.Done{ID: p*each + i}) {
						t.Error("refused")
					}
				}
			})
		}
		wg.Wait()
		q.Close()
		var next [pushers]uint64
		for e := range q.Events() {
			d := e.(agent.Done)
			p, i := d.ID/each, d.ID%each
			if i != next[p] {
				t.Fatalf("event %d of %d where %d is next", i, p, next[p])
			}
			next[p]++
		}
		for p, n := range next {
			if n != each {
				t.Errorf("%d events of %d", n, p)
			}
		}
	})
}

func TestQueueAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		q.Close()
		q.Close()
		if q.Push(agent.Done{}) {
			t.Error("an event was taken after Close")
		}
		if e, ok := <-q.Events(); ok {
			t.Errorf("%v came", e)
		}
	})
}

// A reader that has gone away before Close leaves no goroutine behind, for as many events as
// an agent has at its end. (The bubble fails where one is left.)
func TestClosedQueueNeedsNoReader(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		q := NewQueue()
		for range ready {
			q.Push(agent.Done{})
		}
		q.Close()
	})
}
