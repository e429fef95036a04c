package fault

import (
	"errors"
	"net"
	"sync"
)

// Gate lets so many bytes through and then holds the rest, until it is opened, or breaks
// what they go over. It is safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	left    int64 // negative: no limit
	cut     bool
	changed chan struct{} // closed by the next change, which all who wait try again after
	waiting int           // since the last change
	held    chan struct{} // closed while somebody does
}

// errCut is what a gate breaks a connection with.
var errCut = errors.New("fault: the connection is cut")

// NewGate makes a gate that is open.
func NewGate() *Gate {
	return &Gate{left: -1, changed: make(chan struct{}), held: make(chan struct{})}
}

// Allow lets n more bytes through, whatever was allowed before, and holds those that follow.
func (g *Gate) Allow(n int64) { g.set(n, false) }

// Open lets everything through.
func (g *Gate) Open() { g.set(-1, false) }

// CutAfter lets n more bytes through, and then breaks what they go over.
func (g *Gate) CutAfter(n int64) { g.set(n, true) }

func (g *Gate) set(n int64, cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.cut = n, cut
	close(g.changed)
	g.changed = make(chan struct{})
	if g.waiting > 0 {
		g.waiting, g.held = 0, make(chan struct{})
	}
}

// Held is closed once bytes wait at the gate as it is set now, and stays so while they do.
func (g *Gate) Held() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// Take asks to let n bytes through and says how many may go now, at least 1 of n > 0. It waits
// while there are none, until done is closed.
func (g *Gate) Take(done <-chan struct{}, n int) (int, error) {
	for {
		k, changed, err := g.try(n)
		if changed == nil {
			return k, err
		}
		select {
		case <-changed:
		case <-done:
			g.leave(changed)
			return 0, net.ErrClosed
		}
	}
}

// try says how many of n bytes may go now, or what to wait for.
func (g *Gate) try(n int) (int, <-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.left < 0 || n == 0:
		return n, nil, nil
	case g.left > 0:
		k := int(min(int64(n), g.left))
		g.left -= int64(k)
		return k, nil, nil
	case g.cut:
		return 0, nil, errCut
	}
	if g.waiting++; g.waiting == 1 {
		close(g.held)
	}
	return 0, g.changed, nil
}

// leave takes back one wait for a change.
func (g *Gate) leave(changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed != changed {
		return // the change forgot it
	}
	if g.waiting--; g.waiting == 0 {
		g.held = make(chan struct{})
	}
}

// Conn puts the gate on what is written to a connection. Close ends a write that waits.
func (g *Gate) Conn(c net.Conn) net.Conn {
	return &gated{Conn: c, gate: g, done: make(chan struct{})}
}

// Bulk is Conn for bulk connections alone; it is what tcp.Options.Conn wants.
func (g *Gate) Bulk(c net.Conn, bulk bool) net.Conn {
	if bulk {
		return g.Conn(c)
	}
	return c
}

// All is Conn for every connection, likewise.
func (g *Gate) All(c net.Conn, _ bool) net.Conn { return g.Conn(c) }

type gated struct {
	net.Conn
	gate *Gate
	once sync.Once
	done chan struct{}
}

func (c *gated) Write(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k, err := c.gate.Take(c.done, len(b)-n)
		if errors.Is(err, errCut) {
			_ = c.Close() // the error is the cut itself
		}
		if err != nil {
			return n, err
		}
		k, err = c.Conn.Write(b[n : n+k])
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *gated) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}
