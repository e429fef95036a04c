package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
)

// memNet is a network in memory, whose connections let synctest's clock run.
type memNet struct {
	mu    sync.Mutex
	hosts map[string]*memHost
}

func newMemNet() *memNet { return &memNet{hosts: map[string]*memHost{}} }

var errRefused = errors.New("connection refused")

// listen opens an address.
func (n *memNet) listen(addr string) *memHost {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &memHost{addr: addr, accepted: make(chan net.Conn), closed: make(chan struct{})}
	n.hosts[addr] = h
	return h
}

func (n *memNet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	h := n.hosts[addr]
	n.mu.Unlock()
	if h == nil {
		return nil, errRefused
	}
	ours, theirs := net.Pipe()
	select {
	case h.accepted <- theirs:
		h.keep(theirs)
		return ours, nil
	case <-h.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memHost is one listening address.
type memHost struct {
	addr     string
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once

	mu    sync.Mutex
	conns []net.Conn
}

func (h *memHost) keep(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, c)
}

func (h *memHost) Accept() (net.Conn, error) {
	select {
	case c := <-h.accepted:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *memHost) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *memHost) Addr() net.Addr { return memAddr(h.addr) }

// kill ends the host as a killed process does: nothing listens, and every connection is cut.
func (h *memHost) kill() {
	_ = h.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }
