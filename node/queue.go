package node

import "sync"

// queue carries values from one goroutine to another without ever blocking the giver. What
// it holds is bounded by its users: an answer has at most max_tokens tokens.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	// ready has a token when there may be items.
	ready chan struct{}
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) put(v T) {
	q.mu.Lock()
	q.items = append(q.items, v)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take gives all there is.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}
