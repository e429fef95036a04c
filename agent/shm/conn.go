//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/agent/frame"
	"kvferry/wire"
)

// maxShake is the longest body of a frame in the handshake.
const maxShake = 256 << 10

// shake is a socket during its handshake: it is closed when the context ends.
type shake struct {
	*net.UnixConn
	stop func() bool
	// limit is the longest body of a frame now, life who the other end proved to be.
	limit int
	life  wire.Life
}

func newShake(ctx context.Context, c *net.UnixConn) *shake {
	return &shake{UnixConn: c, limit: auth.MaxBody, stop: context.AfterFunc(ctx, func() { _ = c.Close() })}
}

// keep takes the socket out of the handshake. It fails if the context ended before.
func (s *shake) keep() (*net.UnixConn, error) {
	if !s.stop() {
		return nil, net.ErrClosed
	}
	return s.UnixConn, nil
}

// drop closes a socket that nobody keeps.
func (s *shake) drop() {
	if s.stop() {
		_ = s.Close() // the handshake has failed already; there is nobody to tell
	}
}

// checkUser refuses another end of another user's.
func checkUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("SO_PEERCRED: %w", credErr)
	}
	return sameUser(cred.Uid, os.Geteuid())
}

func sameUser(theirs uint32, ours int) error {
	if int64(theirs) != int64(ours) {
		return fmt.Errorf("%w: it is of user %d, and we of %d", agent.ErrNotLocal, theirs, ours)
	}
	return nil
}

// prove makes sure that there is an agent of this deployment at the other end, on the side that
// exchange is of.
func (s *shake) prove(exchange func(auth.Conn, wire.Life, []byte) (wire.Life, error), own wire.Life) (err error) {
	if _, err := s.Write([]byte(wire.Magic)); err != nil {
		return closedEarly(err)
	}
	var b [len(wire.Magic)]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return closedEarly(err)
	}
	if string(b[:]) != wire.Magic {
		return errors.New("there is no kvferry agent at the other end")
	}
	s.life, err = exchange(s, own, nil)
	s.limit = maxShake
	return err
}

// Put sends a frame.
func (s *shake) Put(f wire.Frame, body wire.Body) error {
	_, err := s.Write(wire.Pack(f, body))
	return closedEarly(err)
}

// Get reads a frame.
func (s *shake) Get() (wire.Frame, []byte, error) {
	f, b, err := frame.Read(s, s.limit)
	return f, b, closedEarly(err)
}

// expect reads a frame of this kind, or the refusal that came in its stead.
func (s *shake) expect(want wire.Frame) ([]byte, error) {
	f, b, err := s.Get()
	switch {
	case err != nil:
		return nil, err
	case f == want:
		return b, nil
	}
	return nil, unexpected(f, b)
}

func closedEarly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, unix.EPIPE) {
		return errors.New("the other end closed the connection in the handshake")
	}
	return err
}

// unexpected is the error of a frame that should not have come now: a refusal's own.
func unexpected(f wire.Frame, b []byte) error {
	if f != wire.FrameRefuse {
		return fmt.Errorf("a %s in the handshake, out of turn", f)
	}
	r, err := wire.DecodeRefuse(b)
	if err != nil {
		return err
	}
	if r.Code == wire.RefuseBusy {
		return errBusy
	}
	return r.Err()
}

// sendKit sends a kit with its descriptors, which come with its length.
func (s *shake) sendKit(k *kit, files []int) error {
	body := k.append(nil)
	head := le.AppendUint32(nil, uint32(len(body)))
	if _, _, err := s.WriteMsgUnix(head, unix.UnixRights(files...), nil); err != nil {
		return err
	}
	_, err := s.Write(body)
	return err
}

// receiveKit reads a kit with its descriptors, which are the caller's to close.
func (s *shake) receiveKit() (_ *kit, files []int, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	head, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(4*(kitFiles+maxMappings)))
	n, oobn, flags, _, err := s.ReadMsgUnix(head, oob)
	if err != nil {
		return nil, nil, closedEarly(err)
	}
	files, err = parseFiles(oob[:oobn])
	switch {
	case err != nil:
		return nil, files, err
	case n == 0:
		return nil, files, closedEarly(io.EOF)
	case flags&unix.MSG_CTRUNC != 0:
		return nil, files, fmt.Errorf("more than %d descriptors", kitFiles+maxMappings)
	}
	if _, err := io.ReadFull(s, head[n:]); err != nil {
		return nil, files, closedEarly(err)
	}
	size := le.Uint32(head)
	if size > maxKit {
		return nil, files, errKit
	}
	body, err := frame.Bytes(s, int(size))
	if err != nil {
		return nil, files, closedEarly(err)
	}
	k, err := decodeKit(body)
	return k, files, err
}

// parseFiles gives the descriptors that came with a message.
func parseFiles(oob []byte) (files []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message
		}
		files = append(files, fds...)
	}
	return files, nil
}
