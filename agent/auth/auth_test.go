package auth

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/wire"
)

// framed is a Conn over a stream, and keeps what it read.
type framed struct {
	net.Conn
	heard bytes.Buffer
}

func (f *framed) Put(kind wire.Frame, body wire.Body) error {
	_, err := f.Write(wire.Pack(kind, body))
	return err
}

func (f *framed) Get() (wire.Frame, []byte, error) {
	h := make([]byte, wire.FrameHeader)
	if _, err := io.ReadFull(f, h); err != nil {
		return 0, nil, err
	}
	kind, n, err := wire.ParseHeader(h)
	if err != nil || n > MaxBody {
		return 0, nil, errors.Join(err, errors.New("no short frame"))
	}
	b := make([]byte, n)
	_, err = io.ReadFull(f, b)
	f.heard.Write(append(h, b...))
	return kind, b, err
}

// end is what one side's exchange gave.
type end struct {
	life  wire.Life
	err   error
	heard string
}

// exchange runs both sides to their ends; dial and accept are a side's own.
func exchange(dial, accept func(Conn) (wire.Life, error)) (dialler, listener end) {
	a, b := net.Pipe()
	ends := [2]end{}
	done := make(chan struct{})
	run := func(c net.Conn, do func(Conn) (wire.Life, error), e *end) {
		f := &framed{Conn: c}
		e.life, e.err = do(f)
		e.heard = f.heard.String()
		c.Close()
	}
	go func() {
		defer close(done)
		run(b, accept, &ends[1])
	}()
	run(a, dial, &ends[0])
	<-done
	return ends[0], ends[1]
}

func dialler(token string) func(Conn) (wire.Life, error) {
	return func(c Conn) (wire.Life, error) { return New(token).Dial(c, wire.Life{1}, nil) }
}

func listener(token string) func(Conn) (wire.Life, error) {
	return func(c Conn) (wire.Life, error) { return New(token).Accept(c, wire.Life{2}, nil) }
}

func TestEqualTokensAgree(t *testing.T) {
	for _, token := range []string{"", "the token"} {
		d, l := exchange(dialler(token), listener(token))
		if d.err != nil || l.err != nil || d.life != (wire.Life{2}) || l.life != (wire.Life{1}) {
			t.Errorf("%q: %+v, %+v", token, d, l)
		}
		if token != "" && (strings.Contains(d.heard, token) || strings.Contains(l.heard, token)) {
			t.Error("the token travelled")
		}
	}
}

// Whoever is refused hears which setting it is about, and nothing of the other side: not its
// life, and no proof.
func TestUnequalTokensAreRefused(t *testing.T) {
	for _, c := range []struct {
		theirs, ours string
		listener     error
		told         string
	}{
		{"", "the token", ErrNoToken, "wants the deployment's token: give both engines the same --token"},
		{"the token", "", ErrToken, "it has no token and was offered one"},
		{"another", "the token", ErrProof, "not this deployment's"},
		{"the token ", "the token", ErrProof, "--token"},
	} {
		d, l := exchange(dialler(c.theirs), listener(c.ours))
		var refused *RefusedError
		if !errors.Is(l.err, c.listener) || !errors.As(d.err, &refused) || !strings.Contains(d.err.Error(), c.told) {
			t.Errorf("%q to %q: %v and %v", c.theirs, c.ours, l.err, d.err)
		}
		life := wire.Life{2}
		if strings.Contains(d.heard, string(life[:])) || strings.Contains(d.heard, string(wire.Pack(wire.FrameProof, wire.Proof{})[:wire.FrameHeader])) {
			t.Errorf("%q to %q: it heard %q", c.theirs, c.ours, d.heard)
		}
	}
}

// A listener that has no token is not told our hello, and a proof of its own making is none.
func TestListenerMustProve(t *testing.T) {
	for name, answer := range map[string]func(theirs wire.Challenge, p wire.Proof) wire.Proof{
		"its own making": func(wire.Challenge, wire.Proof) wire.Proof { return wire.Proof{Life: wire.Life{2}} },
		"ours sent back": func(_ wire.Challenge, p wire.Proof) wire.Proof { return p },
	} {
		d, _ := exchange(dialler("the token"), func(c Conn) (wire.Life, error) {
			theirs, err := get(c, wire.FrameChallenge, wire.DecodeChallenge)
			if err != nil {
				return wire.Life{}, err
			}
			if err := c.Put(wire.FrameChallenge, theirs); err != nil { // our own nonce sent back, too
				return wire.Life{}, err
			}
			p, err := get(c, wire.FrameProof, wire.DecodeProof)
			if err != nil {
				return wire.Life{}, err
			}
			if err := c.Put(wire.FrameProof, answer(theirs, p)); err != nil {
				return wire.Life{}, err
			}
			_, _, err = c.Get() // the refusal
			return wire.Life{}, err
		})
		if !errors.Is(d.err, ErrProof) {
			t.Errorf("%s: %v", name, d.err)
		}
	}
}

// A proof counts for its own connection, side, life and binding, and for nothing else.
func TestProofIsOfOneConnection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(rapid.StringN(1, 40, 80).Draw(t, "token"))
		on := Session{Dialler: s.Challenge(), Listener: s.Challenge(), Binding: []byte("this one")}
		p := s.Prove(Dialler, on, wire.Life{1})
		if err := s.Verify(Dialler, on, p); err != nil {
			t.Fatal(err)
		}
		other, bit := p, on
		bit.Listener.Nonce[rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		other.Life[0]++
		flipped := p
		flipped.MAC[rapid.IntRange(0, 31).Draw(t, "of the proof")] ^= 1
		unbound := on
		unbound.Binding = nil
		for name, err := range map[string]error{
			"the other side":       s.Verify(Listener, on, p),
			"the sides exchanged":  s.Verify(Dialler, Session{on.Listener, on.Dialler, on.Binding}, p),
			"another nonce":        s.Verify(Dialler, bit, p),
			"another life":         s.Verify(Dialler, on, other),
			"another proof":        s.Verify(Dialler, on, flipped),
			"another connection":   s.Verify(Dialler, unbound, p),
			"another token":        New("x"+p.Life.String()).Verify(Dialler, on, p),
			"no token at all":      New("").Verify(Dialler, on, p),
			"a token of no engine": Secret{}.Verify(Dialler, on, p),
		} {
			if !errors.Is(err, ErrProof) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestNoncesAreDrawn(t *testing.T) {
	if a, b := New("t").Challenge(), New("t").Challenge(); a == b || a.Nonce == [32]byte{} {
		t.Errorf("%v and %v", a, b)
	}
}

// script is a peer that says what it likes.
type script struct {
	in   *bytes.Reader
	said bytes.Buffer
}

func (s *script) Put(f wire.Frame, body wire.Body) error {
	s.said.Write(wire.Pack(f, body))
	return nil
}

func (s *script) Get() (wire.Frame, []byte, error) {
	h := make([]byte, wire.FrameHeader)
	if _, err := io.ReadFull(s.in, h); err != nil {
		return 0, nil, err
	}
	f, n, err := wire.ParseHeader(h)
	if err != nil || n > s.in.Len() {
		return 0, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(s.in, b)
	return f, b, err
}

// FuzzAccept: whatever a stranger says, it is refused, and hears neither a proof nor the life.
func FuzzAccept(f *testing.F) { fuzz(f, Secret.Accept, false) }

// FuzzDial: whatever answers, it is not taken for a peer.
func FuzzDial(f *testing.F) { fuzz(f, Secret.Dial, true) }

func fuzz(f *testing.F, side func(Secret, Conn, wire.Life, []byte) (wire.Life, error), proves bool) {
	f.Add([]byte{})
	for _, c := range []wire.Challenge{{}, {Token: true}} {
		b := wire.Pack(wire.FrameChallenge, c)
		f.Add(b)
		f.Add(append(b, wire.Pack(wire.FrameProof, wire.Proof{Life: wire.Life{1}})...))
	}
	f.Add(wire.Pack(wire.FrameRefuse, wire.Refuse{Code: wire.RefuseOther, Reason: "no"}))
	f.Add(wire.Pack(wire.FrameRefuse, wire.Refuse{Code: wire.RefuseMismatch, Field: "f"}))
	f.Fuzz(func(t *testing.T, said []byte) {
		life := wire.Life{9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8}
		c := &script{in: bytes.NewReader(said)}
		if got, err := side(New("the token"), c, life, nil); err == nil || got != (wire.Life{}) {
			t.Fatalf("%x is taken for %s: %v", said, got, err)
		}
		if !proves && bytes.Contains(c.said.Bytes(), life[:]) {
			t.Fatalf("%x hears %x", said, c.said.Bytes())
		}
	})
}
