package tcp

import (
	"net"

	"kvferry/agent/certs"
)

// nearBuffer is the size of a bulk connection's buffers within one host. The kernel lets them grow
// to many megabytes, and then every byte goes to memory and back between the two copies of it.
const nearBuffer = 256 << 10

// buffer sets the size of a bulk connection's buffers.
func (o Options) buffer(c net.Conn) {
	if s, ok := c.(*certs.Conn); ok {
		c = s.NetConn()
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	size := o.SocketBuffer
	if size == 0 && sameHost(t) {
		size = nearBuffer
	}
	if size > 0 {
		_ = t.SetReadBuffer(size) // what the kernel does not allow it does not do, and all goes on
		_ = t.SetWriteBuffer(size)
	}
}

func sameHost(t *net.TCPConn) bool {
	far, ok := t.RemoteAddr().(*net.TCPAddr)
	near, ok2 := t.LocalAddr().(*net.TCPAddr)
	return ok && ok2 && (far.IP.IsLoopback() || far.IP.Equal(near.IP))
}
