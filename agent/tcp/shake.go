package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"kvferry/agent/auth"
	"kvferry/agent/certs"
	"kvferry/agent/frame"
	"kvferry/wire"
)

// maxShake is the longest body of a frame in the handshake, when the other end may be anybody.
const maxShake = 256 << 10

// shake is a connection during its handshake: it is closed when the context ends.
type shake struct {
	net.Conn
	stop func() bool
	// limit is the longest body of a frame now, life who the other end proved to be.
	limit int
	life  wire.Life
	// greeted says that the other end's magic came.
	greeted bool
}

func (a *Agent) shake(ctx context.Context, c net.Conn) *shake {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetNoDelay(true) // it is Go's default; a connection that is closed already shows so later
	}
	return &shake{Conn: c, limit: auth.MaxBody, stop: context.AfterFunc(ctx, func() { _ = c.Close() })}
}

// keep takes the connection out of the handshake. It fails if the context ended before.
func (s *shake) keep() (net.Conn, error) {
	if !s.stop() {
		return nil, net.ErrClosed
	}
	return s.Conn, nil
}

// drop closes a connection that nobody keeps.
func (s *shake) drop() {
	if s.stop() {
		_ = s.Close() // the handshake has failed already; there is nobody to tell
	}
}

// prove encrypts the connection, where there are certificates, and exchanges proofs of the token.
func (a *Agent) prove(ctx context.Context, s *shake, dialled bool) (err error) {
	shake, exchange := (*certs.Store).Listen, a.o.Secret.Accept
	if dialled {
		shake, exchange = (*certs.Store).Dial, a.o.Secret.Dial
	}
	var binding []byte
	if a.o.TLS != nil {
		c, err := shake(a.o.TLS, ctx, s.Conn)
		if err != nil {
			return err
		}
		s.Conn, binding = c, c.Binding
	}
	if !dialled {
		if err := s.greet(); err != nil {
			return err
		}
	}
	if _, err := s.Write([]byte(wire.Magic)); err != nil {
		return err
	}
	if s.life, err = exchange(s, a.hello.Life, binding); err != nil {
		return err
	}
	s.limit = maxShake
	return nil
}

// Put sends a frame.
func (s *shake) Put(f wire.Frame, body wire.Body) error {
	_, err := s.Write(wire.Pack(f, body))
	return err
}

// greet reads the magic.
func (s *shake) greet() error {
	var b [len(wire.Magic)]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return closedEarly(err)
	}
	if string(b[:]) != wire.Magic {
		return errors.New("there is no kvferry agent at the other end, or it is one with TLS where the other has none")
	}
	s.greeted = true
	return nil
}

// Get reads a frame.
func (s *shake) Get() (wire.Frame, []byte, error) {
	if !s.greeted {
		if err := s.greet(); err != nil {
			return 0, nil, err
		}
	}
	f, b, err := frame.Read(s, s.limit)
	return f, b, closedEarly(err)
}

func closedEarly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the other end closed the connection in the handshake")
	}
	return err
}

// expect reads a frame that has no body, or the refusal that came in its stead.
func (s *shake) expect(want wire.Frame) error {
	f, b, err := s.Get()
	if err != nil || f == want {
		return err
	}
	return unexpected(f, b)
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

// judge says whether a hello may be a peer's that proved to be that life, and if not, how to
// refuse it.
func (a *Agent) judge(proved wire.Life, b []byte) (wire.Hello, *wire.Refuse, error) {
	h, err := wire.DecodeHello(b)
	if err == nil {
		err = a.hello.Identity.Check(h.Identity)
	}
	if err == nil && h.Life != proved {
		err = errors.New("the hello names another life than was proved")
	}
	if err == nil {
		return h, nil, nil
	}
	if m := (*wire.MismatchError)(nil); errors.As(err, &m) {
		return h, &wire.Refuse{Code: wire.RefuseMismatch, Field: m.Field, Ours: m.Ours, Theirs: m.Theirs}, err
	}
	return h, &wire.Refuse{Code: wire.RefuseOther, Reason: err.Error()}, err
}

// shakeErr is a handshake's error as it is told: the context's where that ended.
func (a *Agent) shakeErr(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("no handshake within %v", a.o.Handshake)
	default:
		return cause
	}
}
