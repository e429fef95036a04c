package auth

import (
	"errors"
	"fmt"

	"kvferry/wire"
)

// Conn is a framed connection on which nothing was said yet. Get's frames are short: a peer that
// proved nothing has no long ones to send.
type Conn interface {
	Put(f wire.Frame, body wire.Body) error
	Get() (wire.Frame, []byte, error)
}

// MaxBody is the longest body of a frame in the exchange, in bytes.
const MaxBody = 4 << 10

// Dial proves and asks for a proof, on the side that dialled. It gives the life that the peer
// proved to be; the peer's hello must name the same.
func (s Secret) Dial(c Conn, own wire.Life, binding []byte) (wire.Life, error) {
	on := Session{Dialler: s.Challenge(), Binding: binding}
	if err := c.Put(wire.FrameChallenge, on.Dialler); err != nil {
		return wire.Life{}, err
	}
	var err error
	if on.Listener, err = get(c, wire.FrameChallenge, wire.DecodeChallenge); err != nil {
		return wire.Life{}, err
	}
	if err := s.Agree(on.Listener); err != nil {
		return wire.Life{}, refuse(c, err)
	}
	if err := c.Put(wire.FrameProof, s.Prove(Dialler, on, own)); err != nil {
		return wire.Life{}, err
	}
	return s.proved(c, Listener, on)
}

// Accept asks for a proof and then proves, on the side that listens.
func (s Secret) Accept(c Conn, own wire.Life, binding []byte) (wire.Life, error) {
	theirs, err := get(c, wire.FrameChallenge, wire.DecodeChallenge)
	if err != nil {
		return wire.Life{}, refuse(c, err)
	}
	if err := s.Agree(theirs); err != nil {
		return wire.Life{}, refuse(c, err)
	}
	on := Session{Dialler: theirs, Listener: s.Challenge(), Binding: binding}
	if err := c.Put(wire.FrameChallenge, on.Listener); err != nil {
		return wire.Life{}, err
	}
	life, err := s.proved(c, Dialler, on)
	if err != nil {
		return wire.Life{}, err
	}
	return life, c.Put(wire.FrameProof, s.Prove(Listener, on, own))
}

// proved takes the other side's proof, or tells it that it has proved nothing.
func (s Secret) proved(c Conn, side Side, on Session) (wire.Life, error) {
	p, err := get(c, wire.FrameProof, wire.DecodeProof)
	if err == nil {
		err = s.Verify(side, on, p)
	}
	if err != nil {
		return wire.Life{}, refuse(c, err)
	}
	return p.Life, nil
}

// RefusedError is a refusal that came in the exchange.
type RefusedError struct{ Cause error }

func (e *RefusedError) Error() string { return e.Cause.Error() }

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// OutOfTurnError is a frame that is not the one which must come now: the peer speaks another
// protocol version, or is no peer.
type OutOfTurnError struct{ Got, Want wire.Frame }

func (e *OutOfTurnError) Error() string {
	return fmt.Sprintf("a %s where a %s must come, out of turn", e.Got, e.Want)
}

// get reads one body of the kind, or the refusal that came in its stead.
func get[B any](c Conn, want wire.Frame, decode func([]byte) (B, error)) (body B, err error) {
	f, b, err := c.Get()
	switch {
	case err != nil:
		return body, err
	case f == want:
		return decode(b)
	case f != wire.FrameRefuse:
		return body, &OutOfTurnError{Got: f, Want: want}
	}
	r, err := wire.DecodeRefuse(b)
	if err != nil {
		return body, err
	}
	return body, &RefusedError{r.Err()}
}

// refuse tells the peer why it is none, where it is not the peer that refuses us, and gives err.
// What a stranger hears is one of few sentences, with nothing of us in it.
func refuse(c Conn, err error) error {
	if r := (*RefusedError)(nil); errors.As(err, &r) {
		return err
	}
	_ = c.Put(wire.FrameRefuse, wire.Refuse{Code: wire.RefuseOther, Reason: reason(err)}) // it may be gone
	return err
}

// reason is what the other end is told, from its own point of view.
func reason(err error) string {
	switch {
	case errors.Is(err, ErrNoToken):
		return "it wants the deployment's token: give both engines the same --token"
	case errors.Is(err, ErrToken):
		return "it has no token and was offered one: give both engines the same --token, or neither one"
	case errors.Is(err, ErrProof):
		return "the token is not this deployment's: give both engines the same --token"
	}
	return "this is no handshake of a peer: is it of another protocol version?"
}
