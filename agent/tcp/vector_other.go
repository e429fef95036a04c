//go:build !linux

package tcp

import "net"

// vector moves a list of pieces through a connection. It is one goroutine's, and for one
// direction.
type vector struct {
	conn   net.Conn
	pieces net.Buffers
}

func newVector(c net.Conn, _ bool) *vector { return &vector{conn: c} }

// reset begins a new list.
func (v *vector) reset() { v.pieces = v.pieces[:0] }

// add appends a piece. It stays where it is until write or read.
func (v *vector) add(b []byte) { v.pieces = append(v.pieces, b) }

// write sends the list.
func (v *vector) write() error {
	bufs := v.pieces
	_, err := bufs.WriteTo(v.conn)
	return err
}

// read fills the list.
func (v *vector) read() error { return fillEach(v.conn, v.pieces) }
