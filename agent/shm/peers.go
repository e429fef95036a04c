//go:build linux

package shm

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"kvferry/wire"
)

// slot is a life's place in the table. Whoever holds it makes, or is, the one link with that
// life.
type slot struct {
	life wire.Life
	// ours says that we dialled.
	ours bool
	// cancel ends the handshake of a slot that has no link yet.
	cancel context.CancelCauseFunc
	// settled is closed once the link is up, or the slot gone without one.
	settled chan struct{}
	gone    chan struct{}
	link    *link // of the table's lock; nil until up
}

// peers is the table of slots.
type peers struct {
	mu     sync.Mutex
	byLife map[wire.Life]*slot
}

func newPeers() *peers { return &peers{byLife: make(map[wire.Life]*slot)} }

// up is the link with a life, or nil.
func (p *peers) up(life wire.Life) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.byLife[life]; s != nil {
		return s.link
	}
	return nil
}

// take takes a life's slot, or gives the one that is there.
func (p *peers) take(life wire.Life, ours bool, cancel context.CancelCauseFunc) (s *slot, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.byLife[life]; s != nil {
		return s, false
	}
	s = &slot{
		life: life, ours: ours, cancel: cancel, settled: make(chan struct{}), gone: make(chan struct{}),
	}
	p.byLife[life] = s
	return s, true
}

// settle puts the link into its slot; tell runs before anybody can see it.
func (p *peers) settle(s *slot, l *link, tell func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.link = l
	tell()
	close(s.settled)
}

// ifUp runs tell while the slot's link cannot leave the table. It says false where the link is
// ending, or there was none.
func (p *peers) ifUp(s *slot, tell func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.link == nil || p.byLife[s.life] != s || s.link.ended.Load() {
		return false
	}
	tell()
	return true
}

// release takes the slot out of the table; tell runs before another can take its place.
func (p *peers) release(s *slot, tell func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byLife, s.life)
	tell()
	if s.link == nil {
		close(s.settled)
	}
	close(s.gone)
}

// The reasons why a handshake is begun anew.
var (
	errBusy       = errors.New("another connection with the peer is coming up")
	errSuperseded = errors.New("the peer's own connection came first")
	errReplaced   = errors.New("the peer made a new connection")
)

// yields decides between the slot that is there and a claim of the peer: when both sides dial
// at once the lower life's connection stays, on either side. Where the peer itself made the
// old one, it knows best that it wants a new one.
func (s *slot) yields(own wire.Life) bool {
	return !s.ours || bytes.Compare(s.life[:], own[:]) < 0
}

// takeFor takes the slot for a claim that the peer sends, and ends what stands in its way. It
// waits until that is gone, or fails with errBusy.
func (p *peers) takeFor(ctx context.Context, own, life wire.Life, cancel context.CancelCauseFunc) (*slot, error) {
	for {
		s, taken := p.take(life, false, cancel)
		if taken {
			return s, nil
		}
		if !s.yields(own) {
			return nil, errBusy
		}
		select {
		case <-p.end(s):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// end ends a slot's handshake, or its link, and gives what to wait for. A handshake may succeed
// all the same.
func (p *peers) end(s *slot) <-chan struct{} {
	p.mu.Lock()
	l := s.link
	p.mu.Unlock()
	if l != nil {
		l.failSoon(errReplaced)
		return s.gone
	}
	s.cancel(errSuperseded)
	return s.settled
}
