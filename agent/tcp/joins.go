package tcp

import (
	"net"
	"sync"

	"kvferry/wire"
)

// joins brings bulk connections to the handshake that waits for them.
type joins struct {
	mu      sync.Mutex
	waiting map[wire.Nonce]*joining
}

// joining is one handshake's bulk connections so far.
type joining struct {
	life  wire.Life  // whose they must be
	lanes []net.Conn // by index, nil until it joined
	left  int
	full  chan struct{} // closed once left is 0
}

func newJoins() *joins { return &joins{waiting: make(map[wire.Nonce]*joining)} }

// expect opens a place for n bulk connections. It fails where the nonce is taken.
func (j *joins) expect(nonce wire.Nonce, life wire.Life, n int) (*joining, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting[nonce] != nil {
		return nil, false
	}
	w := &joining{life: life, lanes: make([]net.Conn, n), left: n, full: make(chan struct{})}
	j.waiting[nonce] = w
	return w, true
}

// join hands over a life's connection, or says that nobody waits for it.
func (j *joins) join(to wire.Join, life wire.Life, c net.Conn) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.waiting[to.Nonce]
	if w == nil || w.life != life || int(to.Index) >= len(w.lanes) || w.lanes[to.Index] != nil {
		return false
	}
	w.lanes[to.Index] = c
	if w.left--; w.left == 0 {
		close(w.full)
	}
	return true
}

// end closes the place and gives the connections that came.
func (j *joins) end(nonce wire.Nonce) []net.Conn {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.waiting[nonce]
	delete(j.waiting, nonce)
	var came []net.Conn
	for _, c := range w.lanes {
		if c != nil {
			came = append(came, c)
		}
	}
	return came
}
