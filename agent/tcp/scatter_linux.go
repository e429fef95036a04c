package tcp

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxScatter is how many pieces one system call fills.
const maxScatter = 1024

// scatter fills the pieces in order, from the connection straight and with few system calls. It
// uses bufs up.
func scatter(c net.Conn, bufs [][]byte) error {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return fillEach(c, bufs)
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	for len(bufs) > 0 {
		n, err := readv(raw, bufs[:min(len(bufs), maxScatter)])
		if err != nil {
			return err
		}
		for n > 0 {
			k := min(n, len(bufs[0]))
			bufs[0], n = bufs[0][k:], n-k
			if len(bufs[0]) == 0 {
				bufs = bufs[1:]
			}
		}
	}
	return nil
}

// readv reads once, when there is something, at least one byte.
func readv(raw syscall.RawConn, bufs [][]byte) (n int, err error) {
	waitErr := raw.Read(func(fd uintptr) bool {
		for ok := true; ok; ok = err == unix.EINTR {
			n, err = unix.Readv(int(fd), bufs)
		}
		return err != unix.EAGAIN
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, &net.OpError{Op: "readv", Net: "tcp", Err: err}
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}
