package tcp_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// What is no kvferry agent, or breaks the handshake, is closed, and peers are still welcome.
func TestStrangersAreClosed(t *testing.T) {
	var log logs
	a, _ := running(t, tcp.Options{Handshake: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	magic := []byte(wire.Magic)
	greet := wire.Pack(wire.FrameHello, hello(2))
	for name, say := range map[string][]byte{
		"nothing":              nil,
		"HTTP":                 []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"half the magic":       magic[:3],
		"zeros":                make([]byte, 100),
		"an unknown kind":      append(magic, 0, 0, 0, 0, 200),
		"a hello unproved":     append(magic, greet...),
		"a challenge, no more": append(magic, wire.Pack(wire.FrameChallenge, wire.Challenge{})...),
		"a false proof":        append(append(magic, wire.Pack(wire.FrameChallenge, wire.Challenge{})...), wire.Pack(wire.FrameProof, wire.Proof{})...),
	} {
		t.Run(name, func(t *testing.T) {
			s := dial(t, a)
			s.say(say)
			s.closed()
		})
	}
	for name, say := range map[string][]byte{
		"a long hello":        {255, 255, 255, 255, byte(wire.FrameHello)},
		"a long notice":       {0, 0, 64, 0, byte(wire.FrameNotice)},
		"half a hello":        greet[:20],
		"a hello with a tail": {9, 0, 0, 0, byte(wire.FrameHello), 1, 0, 0, 0, 0, 0, 0, 0, 0},
		"another life":        wire.Pack(wire.FrameHello, hello(3)),
		"a ping first":        wire.Pack(wire.FramePing, wire.Ping{}),
		"a claim first":       wire.Pack(wire.FrameClaim, wire.Claim{Bulk: 1}),
		"an unasked join":     wire.Pack(wire.FrameJoin, wire.Join{}),
		"a hello, no claim":   greet,
		"a claim of nothing":  append(greet[:len(greet):len(greet)], wire.Pack(wire.FrameClaim, wire.Claim{})...),
		"two hellos":          append(greet[:len(greet):len(greet)], greet...),
		"a claim, no bulk":    append(greet[:len(greet):len(greet)], wire.Pack(wire.FrameClaim, wire.Claim{Bulk: 2})...),
	} {
		t.Run(name, func(t *testing.T) {
			s := proved(t, a, 2)
			s.say(say)
			s.closed()
		})
	}
	pose(t, a, 2)
	if e := await[agent.PeerUp](t, a); e.Hello.Life != (wire.Life{2}) {
		t.Errorf("%+v", e)
	}
	log.await(t, "no kvferry agent")
}

// Whoever is connected to says nothing, or is something else: the time-out or the first bytes
// end it.
func TestConnectToStrangers(t *testing.T) {
	a, _ := running(t, tcp.Options{Handshake: 300 * time.Millisecond})
	for say, want := range map[string]string{
		"":                                 "no handshake within 300ms",
		"HTTP/1.1 400 Bad Request\r\n\r\n": "no kvferry agent",
		wire.Magic + string(wire.Pack(wire.FramePong, wire.Ping{})): "out of turn",
		wire.Magic + string(wire.Pack(wire.FrameHello, hello(2))):   "out of turn",
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer ln.Close()
		go func() {
			c, err := ln.Accept()
			if err == nil {
				_, _ = c.Write([]byte(say)) // the agent's error is what counts
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			}
		}()
		a.Connect(ln.Addr().String())
		if e := await[agent.ConnectFailed](t, a); e.Addr != ln.Addr().String() || !strings.Contains(e.Err.Error(), want) {
			t.Errorf("%q: %v", say, e.Err)
		}
	}
}

// The side that is dialled logs the field, and the dialling side hears it even in a protocol
// version whose hello it cannot read.
//
// case: 07
func TestMismatchIsLoggedAndTold(t *testing.T) {
	var log logs
	a, _ := running(t, tcp.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for field, h := range map[string]wire.Body{
		"protocol version": wire.Raw{9, 0, 1, 2, 3},
		"kv dtype":         wire.Hello{Life: wire.Life{2}, Identity: wire.Identity{Version: wire.Version, Model: "m", DType: "f64"}},
	} {
		s := proved(t, a, 2)
		s.say(wire.Pack(wire.FrameHello, h))
		r, err := wire.DecodeRefuse(s.hear(wire.FrameRefuse))
		if err != nil || r.Code != wire.RefuseMismatch || r.Field != field {
			t.Errorf("%+v, %v", r, err)
		}
		var m *wire.MismatchError
		if !errors.As(r.Err(), &m) {
			t.Error(r.Err())
		}
		s.closed()
		log.await(t, field)
	}
}

// So many handshakes may go on at once and no more. Whoever has proved nothing makes room for
// the next, so that connections which say nothing hold up no peer; peers do not.
func TestHandshakesAreBounded(t *testing.T) {
	var log logs
	a, _ := running(t, tcp.Options{Handshake: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
	const doors = 256
	var silent []stranger
	for range doors {
		silent = append(silent, dial(t, a))
	}
	pose(t, a, 2)
	await[agent.PeerUp](t, a)
	silent[0].closed()
	log.await(t, "it has proved nothing")
	for range doors {
		s := proved(t, a, 3)
		s.say(wire.Pack(wire.FrameHello, hello(3)))
		s.hear(wire.FrameHello) // so that the agent knows that it is proved
	}
	for _, s := range silent {
		s.closed()
	}
	dial(t, a).closed()
	log.await(t, "connection refused: too many handshakes")
}

// A peer that has lost the connection and makes a new one takes the old one's place.
func TestNewConnectionReplacesTheOld(t *testing.T) {
	a, _ := running(t, tcp.Options{})
	old := pose(t, a, 2)
	await[agent.PeerUp](t, a)
	pose(t, a, 2)
	if e := await[agent.PeerLost](t, a); !strings.Contains(e.Err.Error(), "new connection") {
		t.Error(e.Err)
	}
	await[agent.PeerUp](t, a)
	old.control.closed()
	old.bulk.closed()
}
