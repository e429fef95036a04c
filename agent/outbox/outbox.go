// Package outbox is the queue of the small frames that an agent has for one peer: in order, and
// bounded, so that a peer that reads nothing costs no more than that.
package outbox

import "sync"

// The most that a queue may hold before its peer is dropped.
const (
	maxFrames = 64 << 10
	maxBytes  = 64 << 20
)

// Box is one connection's queue. It is safe for concurrent use.
type Box struct {
	full error
	wake chan struct{}

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	closed bool
}

// New makes an empty queue; full is what Push says when it is full.
func New(full error) *Box { return &Box{full: full, wake: make(chan struct{}, 1)} }

// Wake tells the sender that there may be something to take.
func (o *Box) Wake() <-chan struct{} { return o.wake }

// Push appends a frame, or says that the queue is full. Once closed it takes none.
func (o *Box) Push(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if len(o.frames) >= maxFrames || o.bytes+len(frame) > maxBytes {
		return o.full
	}
	o.add(frame)
	return nil
}

func (o *Box) add(frame []byte) {
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// End closes the queue with one last frame.
func (o *Box) End(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.add(last)
}

// Take empties the queue. Once it says closed no frame can follow.
func (o *Box) Take() (frames [][]byte, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.frames, o.bytes = o.frames, nil, 0
	return frames, o.closed
}
