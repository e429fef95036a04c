// Package event is the way from an agent's goroutines to its reader: a queue without
// bound, in order, that feeds a channel.
package event

import (
	"sync"

	"kvferry/agent"
)

// ready is how many events wait in the channel itself, so that a closed queue's last events
// need no goroutine.
const ready = 256

// Queue takes events from any goroutine and never blocks it.
type Queue struct {
	out  chan agent.Event
	wake chan struct{}

	mu     sync.Mutex
	events []agent.Event
	closed bool
}

// NewQueue starts a queue; Close ends it.
func NewQueue() *Queue {
	q := &Queue{out: make(chan agent.Event, ready), wake: make(chan struct{}, 1)}
	go q.pump()
	return q
}

// Events is closed after the last event that was pushed before Close.
func (q *Queue) Events() <-chan agent.Event { return q.out }

// Push appends an event. After Close it does nothing and says false.
func (q *Queue) Push(e agent.Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.events = append(q.events, e)
	q.poke()
	return true
}

// Close lets no further event in. The reader still gets those that are queued; it must read
// until the channel is closed.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.poke()
}

func (q *Queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) pump() {
	defer close(q.out)
	for range q.wake {
		events, closed := q.take()
		for _, e := range events {
			q.out <- e
		}
		if closed {
			return
		}
	}
}

// take empties the queue. Once it says closed no event can follow.
func (q *Queue) take() ([]agent.Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events = nil
	return events, q.closed
}
