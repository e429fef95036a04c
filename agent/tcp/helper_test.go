package tcp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// logs keeps what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// await waits until a text is logged.
func (l *logs) await(t testing.TB, text string) {
	t.Helper()
	l.awaitTimes(t, text, 1)
}

func (l *logs) awaitTimes(t testing.TB, text string, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		l.mu.Lock()
		all := l.b.String()
		l.mu.Unlock()
		if strings.Count(all, text) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing of %q is logged: %s", text, all)
		}
	}
}

func hello(life byte) wire.Hello {
	return wire.Hello{Life: wire.Life{life}, Identity: wire.Identity{Version: wire.Version, Model: "m"}}
}

// quietLog keeps expected warnings out of the output.
var quietLog = slog.New(slog.DiscardHandler)

const size = 8 << 20

// running starts an agent with one region, whose life is 1.
func running(t testing.TB, o tcp.Options) (*tcp.Agent, []byte) {
	if o.Log == nil {
		o.Log = quietLog
	}
	return runningAs(t, o, hello(1))
}

func runningAs(t testing.TB, o tcp.Options, h wire.Hello) (*tcp.Agent, []byte) {
	a, mem := tcp.New(o), make([]byte, size)
	if _, err := a.Register(mem); err != nil {
		t.Fatal(err)
	}
	if err := a.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
		for range a.Events() {
		}
	})
	return a, mem
}

// await waits for an event of the type, and skips others.
func await[E agent.Event](t testing.TB, a agent.Agent) E {
	t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case e, ok := <-a.Events():
			if e, is := e.(E); is {
				return e
			}
			if !ok {
				t.Fatal("events ended")
			}
		case <-timeout:
			t.Fatalf("no %T comes", *new(E))
		}
	}
}

// stranger is the other end of an agent's connection, by hand.
type stranger struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, a *tcp.Agent) stranger {
	t.Helper()
	c, err := net.Dial("tcp", a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return stranger{t, c}
}

func (s stranger) say(b ...[]byte) {
	s.t.Helper()
	for _, b := range b {
		if _, err := s.Write(b); err != nil {
			s.t.Fatal(err)
		}
	}
}

// greeted reads the magic.
func (s stranger) greeted() {
	s.t.Helper()
	b := make([]byte, len(wire.Magic))
	if _, err := io.ReadFull(s, b); err != nil || string(b) != wire.Magic {
		s.t.Fatalf("%q, %v", b, err)
	}
}

// hear reads frames until one of the kind comes, and gives its body.
func (s stranger) hear(want wire.Frame) []byte {
	s.t.Helper()
	for {
		f, b, err := s.frame()
		if err != nil {
			s.t.Fatalf("no %s comes: %v", want, err)
		}
		if f == want {
			return b
		}
	}
}

func (s stranger) frame() (wire.Frame, []byte, error) {
	h := make([]byte, wire.FrameHeader)
	if _, err := io.ReadFull(s, h); err != nil {
		return 0, nil, err
	}
	f, n, err := wire.ParseHeader(h)
	if err != nil {
		return 0, nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(s, b)
	return f, b, err
}

// closed fails unless the agent closes the connection.
func (s stranger) closed() {
	s.t.Helper()
	if _, err := io.Copy(io.Discard, s); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() {
			s.t.Fatal("the connection stays open")
		}
	}
}

// stranded is a peer by hand, with its connections up.
type stranded struct {
	control, bulk stranger
	a             *tcp.Agent
}

// proved connects as the life, without a token, to an agent that has none either.
func proved(t testing.TB, a *tcp.Agent, life byte) stranger {
	t.Helper()
	return provedBy(t, a, auth.Secret{}, life)
}

func provedBy(t testing.TB, a *tcp.Agent, s auth.Secret, life byte) stranger {
	t.Helper()
	c := dial(t, a)
	c.say([]byte(wire.Magic))
	c.greeted()
	peer, err := s.Dial(c, wire.Life{life}, nil)
	if err != nil || peer != (wire.Life{1}) {
		t.Fatalf("%s, %v", peer, err)
	}
	return c
}

// Put and Get make a stranger an auth.Conn.
func (s stranger) Put(f wire.Frame, body wire.Body) error {
	_, err := s.Write(wire.Pack(f, body))
	return err
}

func (s stranger) Get() (wire.Frame, []byte, error) { return s.frame() }

// pose shakes hands with the agent as the life, and waits until it is up.
func pose(t testing.TB, a *tcp.Agent, life byte) stranded {
	t.Helper()
	return poseWith(t, a, auth.Secret{}, life)
}

func poseWith(t testing.TB, a *tcp.Agent, s auth.Secret, life byte) stranded {
	t.Helper()
	c := provedBy(t, a, s, life)
	c.say(wire.Pack(wire.FrameHello, hello(life)))
	c.hear(wire.FrameHello)
	nonce := wire.Nonce{life, byte(time.Now().UnixNano()), byte(time.Now().UnixNano() >> 8)}
	c.say(wire.Pack(wire.FrameClaim, wire.Claim{Nonce: nonce, Bulk: 1}))
	c.hear(wire.FrameWelcome)
	b := provedBy(t, a, s, life)
	b.say(wire.Pack(wire.FrameJoin, wire.Join{Nonce: nonce}))
	c.hear(wire.FrameReady)
	return stranded{control: c, bulk: b, a: a}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func transfer(id uint64, life byte, bytes uint64, notice string) agent.Transfer {
	l := agent.List{{Length: bytes}}
	t := agent.Transfer{
		ID: id, Peer: wire.Life{life}, Local: l, LocalIdx: []int32{0}, Remote: l, RemoteIdx: []int32{0}, Epoch: 1,
	}
	if notice != "" {
		t.Notice = fmt.Append(nil, notice)
	}
	return t
}
