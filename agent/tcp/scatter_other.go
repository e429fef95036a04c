//go:build !linux

package tcp

import "net"

// scatter fills the pieces in order. It uses bufs up.
func scatter(c net.Conn, bufs [][]byte) error { return fillEach(c, bufs) }
