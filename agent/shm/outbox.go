//go:build linux

package shm

import (
	"errors"
	"sync"
)

// The most that the queue of a socket may hold before its peer is dropped.
const (
	maxOutFrames = 64 << 10
	maxOutBytes  = 64 << 20
)

// errOutFull is why a peer is dropped that takes no messages off us.
var errOutFull = errors.New("the message queue is full: the peer does not read it")

// outbox is the queue of one socket.
type outbox struct {
	wake chan struct{}

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	closed bool
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// push appends a frame, or says that the queue is full. Once closed it takes none.
func (o *outbox) push(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if len(o.frames) >= maxOutFrames || o.bytes+len(frame) > maxOutBytes {
		return errOutFull
	}
	o.add(frame)
	return nil
}

func (o *outbox) add(frame []byte) {
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// end closes the queue with one last frame.
func (o *outbox) end(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.add(last)
}

// take empties the queue. Once it says closed no frame can follow.
func (o *outbox) take() (frames [][]byte, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.frames, o.bytes = o.frames, nil, 0
	return frames, o.closed
}
