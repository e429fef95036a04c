package tcp

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxVector is how many pieces one system call takes: IOV_MAX.
const maxVector = 1024

// vector moves a list of pieces through a connection straight, with few system calls and without
// allocating. It is one goroutine's, and for one direction.
type vector struct {
	conn net.Conn
	raw  syscall.RawConn // nil where the connection is no plain TCP
	iov  []unix.Iovec    // what is left of the list
	all  []unix.Iovec    // where iov lies
	// try is one attempt, made once so that a call costs no closure; n and err are its result.
	try  func(fd uintptr) bool
	call uintptr
	n    int
	err  syscall.Errno
	// spare is for connections that take one piece at a time.
	spare net.Buffers
}

func newVector(c net.Conn, write bool) *vector {
	v := &vector{conn: c, call: unix.SYS_READV}
	if write {
		v.call = unix.SYS_WRITEV
	}
	if t, ok := c.(*net.TCPConn); ok {
		v.raw, _ = t.SyscallConn() // nil where it fails, and then the long way is taken
	}
	v.try = v.once
	return v
}

// reset begins a new list.
func (v *vector) reset() { v.all, v.spare = v.all[:0], v.spare[:0] }

// add appends a piece. It stays where it is until move.
func (v *vector) add(b []byte) {
	switch {
	case len(b) == 0:
	case v.raw == nil:
		v.spare = append(v.spare, b)
	default:
		i := unix.Iovec{Base: &b[0]}
		i.SetLen(len(b))
		v.all = append(v.all, i)
	}
}

// write sends the list.
func (v *vector) write() error {
	if v.raw == nil {
		bufs := v.spare
		_, err := bufs.WriteTo(v.conn)
		return err
	}
	return v.move(v.raw.Write, "writev")
}

// read fills the list.
func (v *vector) read() error {
	if v.raw == nil {
		return fillEach(v.conn, v.spare)
	}
	return v.move(v.raw.Read, "readv")
}

func (v *vector) move(when func(func(fd uintptr) bool) error, op string) error {
	for v.iov = v.all; len(v.iov) > 0; {
		if err := when(v.try); err != nil {
			return err
		}
		switch {
		case v.err != 0:
			return &net.OpError{Op: op, Net: "tcp", Err: v.err}
		case v.n == 0:
			return io.ErrUnexpectedEOF
		}
		v.advance(uint64(v.n))
	}
	return nil
}

// once makes one system call, or says that the connection is not ready.
func (v *vector) once(fd uintptr) bool {
	for {
		n, _, err := unix.Syscall(v.call, fd, uintptr(unsafe.Pointer(&v.iov[0])), uintptr(min(len(v.iov), maxVector)))
		if err != unix.EINTR {
			v.n, v.err = int(n), err
			return err != unix.EAGAIN
		}
	}
}

// advance takes moved bytes off the list.
func (v *vector) advance(n uint64) {
	for n > 0 {
		i := &v.iov[0]
		if l := uint64(i.Len); n >= l {
			n -= l
			v.iov = v.iov[1:]
			continue
		}
		i.Base = (*byte)(unsafe.Add(unsafe.Pointer(i.Base), n))
		i.SetLen(int(uint64(i.Len) - n))
		return
	}
}
