package fault

import (
	"sync"
	"time"

	"kvferry/wire"
)

// link is what is held for one peer.
type link struct {
	peer   wire.Life
	script Script
	counts map[Kind]int // of the agent's lock
	// Notices have a line of their own, so that they never wait for transfers.
	bulk, control *line
}

func newLink(peer wire.Life, script Script, stalled func() bool) *link {
	return &link{
		peer: peer, script: script, counts: make(map[Kind]int),
		bulk: newLine(stalled), control: newLine(stalled),
	}
}

func (l *link) decide(k Kind, bytes uint64) Action {
	l.counts[k]++
	if l.script == nil {
		return Action{}
	}
	return l.script(Op{Kind: k, Peer: l.peer, Nth: l.counts[k], Bytes: bytes})
}

func (l *link) poke() {
	l.bulk.poke()
	l.control.poke()
}

// end fails what is held and waits until nothing of it can be passed on any more.
func (l *link) end(err error) {
	l.bulk.end(err)
	l.control.end(err)
}

// item is one operation that is held. It runs once the line has been its own for so long, or
// fails where the line ends first.
type item struct {
	at   time.Time
	run  func()
	fail func(error)
}

// line passes items on in order, each when its time has come.
type line struct {
	stalled func() bool
	wake    chan struct{}
	done    chan struct{} // closed by end
	exited  chan struct{}

	mu    sync.Mutex
	items []item
	free  time.Time // when the last item will have been passed on
	err   error     // why it ended
}

func newLine(stalled func() bool) *line {
	l := &line{
		stalled: stalled, wake: make(chan struct{}, 1), done: make(chan struct{}), exited: make(chan struct{}),
	}
	go l.pump()
	return l
}

// add appends an item that takes so long once the line is free.
func (l *line) add(takes time.Duration, run func(), fail func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(takes)
	l.items = append(l.items, item{at: l.free, run: run, fail: fail})
	l.poke()
}

func (l *line) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *line) end(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	close(l.done)
	<-l.exited
}

func (l *line) pump() {
	defer close(l.exited)
	for {
		it, ok := l.head()
		if !ok {
			break
		}
		if !l.wait(it.at) {
			break
		}
		l.mu.Lock()
		l.items = l.items[1:]
		l.mu.Unlock()
		it.run()
	}
	for _, it := range l.items {
		it.fail(l.err)
	}
}

// head waits for an item, or says that the line ended.
func (l *line) head() (item, bool) {
	for {
		l.mu.Lock()
		if len(l.items) > 0 {
			defer l.mu.Unlock()
			return l.items[0], true
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.done:
			return item{}, false
		}
	}
}

// wait waits until then, and for as long as the agent is stalled; false says that the line
// ended.
func (l *line) wait(then time.Time) bool {
	timer := time.NewTimer(time.Until(then))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
		return false
	}
	for l.stalled() {
		select {
		case <-l.wake:
		case <-l.done:
			return false
		}
	}
	return true
}
