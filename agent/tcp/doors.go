package tcp

import (
	"net"
	"sync"
)

// doors bounds how many connections are in their handshake at once. When all are taken, the
// oldest that has proved nothing makes room: a peer proves itself in a moment, and whoever holds
// doors open by saying nothing, or little, holds up nobody else.
type doors struct {
	max int

	mu    sync.Mutex
	taken []*door // the oldest first
}

// door is one connection's handshake.
type door struct {
	conn   net.Conn
	proved bool
}

// enter takes a door, or gives nil where all are taken by peers that have proved themselves. The
// connection that made room, if one had to, is closed and given.
func (d *doors) enter(c net.Conn) (in *door, out net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.taken) >= d.max {
		if out = d.evict(); out == nil {
			return nil, nil
		}
	}
	in = &door{conn: c}
	d.taken = append(d.taken, in)
	return in, out
}

func (d *doors) evict() net.Conn {
	for i, o := range d.taken {
		if !o.proved {
			d.taken = append(d.taken[:i], d.taken[i+1:]...)
			_ = o.conn.Close() // its handshake fails of it
			return o.conn
		}
	}
	return nil
}

// prove says that a door's connection is a peer's. One that had to make room stays closed.
func (d *doors) prove(o *door) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o.proved = true
}

// leave gives the door back.
func (d *doors) leave(o *door) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.taken {
		if d.taken[i] == o {
			d.taken = append(d.taken[:i], d.taken[i+1:]...)
			return
		}
	}
}
