package engine

import (
	"container/heap"

	"kvferry/transfer"
)

// timers wakes requests at their sessions' deadlines. A deadline that moved later is not
// looked for in the heap: the old entry fires, finds nothing due, and is set again. So setting
// costs nothing on most events, and no step is O(all requests).
type timers struct{ h timerHeap }

type timer struct {
	at  int64
	seq *seq
}

// set makes sure that s is woken at its deadline or before.
func (t *timers) set(s *seq) {
	if d := s.deadline(); d < s.wake {
		s.wake = d
		heap.Push(&t.h, timer{d, s})
	}
}

// next is the earliest instant at which something may be due.
func (t *timers) next() int64 {
	if len(t.h) == 0 {
		return transfer.Never
	}
	return t.h[0].at
}

// due takes one request whose timer has come.
func (t *timers) due(now int64) (*seq, bool) {
	for len(t.h) > 0 && t.h[0].at <= now {
		e := heap.Pop(&t.h).(timer)
		if e.at != e.seq.wake {
			continue // an earlier timer of the same request was set since
		}
		e.seq.wake = transfer.Never
		return e.seq, true
	}
	return nil, false
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq.number < h[j].seq.number
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return e
}
