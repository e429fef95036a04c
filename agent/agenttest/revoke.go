package agenttest

import (
	"bytes"
	"errors"
	"runtime"
	"time"

	"kvferry/agent"
	"kvferry/agent/fault"
)

// An epoch that nobody writes, or that there is not, is revoked at once.
func revokeWhenIdle(s *suite) {
	a, b := s.pair(Options{})
	b.Grant(1, a.life(), blocksOf(seq(0, 4)))
	a.Write(s.transfer(b, 1, []int32{0}, []int32{0}, ""))
	if err := a.done(s.ids); err != nil {
		s.Fatal(err)
	}
	for _, epoch := range []uint64{1, 77} {
		b.Revoke(epoch)
		await(b, func(e agent.Revoked) bool { return e.Epoch == epoch })
	}
	a.Write(s.transfer(b, 1, []int32{0}, []int32{1}, "late"))
	if err := a.done(s.ids); !errors.Is(err, agent.ErrRefused) {
		s.Errorf("after the revoke: %v", err)
	}
	quiet[agent.Notice](b, a)
	b.untouched(0)
}

// A write whose bytes are still on their way when its epoch is revoked is refused when they
// come, and what was granted anew to another is not written by it.
//
// req: PIPE-32
// case: 18
func revokeBetweenFrames(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g, FrameBytes: block})
	b.Grant(1, a.life(), blocksOf(seq(0, 8)))
	g.Allow(0)
	a.Write(s.transfer(b, 1, seq(0, 8), seq(0, 8), "late"))
	<-g.Held()
	b.Revoke(1)
	await(b, every[agent.Revoked])
	after := bytes.Clone(b.pool)
	b.Grant(2, a.life(), blocksOf(seq(0, 8)))
	g.Open()
	if err := a.done(s.ids); !errors.Is(err, agent.ErrRefused) {
		s.Errorf("%v", err)
	}
	quiet[agent.Notice](b, a)
	if !bytes.Equal(after, b.pool) {
		s.Error("a byte landed after Revoked")
	}
	b.untouched()
}

// A frame that is being received when its epoch is revoked may finish within the grace;
// Revoked comes only then, and no byte after it.
//
// req: PIPE-32
func revokeLetsAFrameFinish(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g, FrameBytes: block, RevokeGrace: patience})
	noise(a.pool, 1)
	b.Grant(1, a.life(), blocksOf(seq(0, 8)))
	g.Allow(5 * block / 2)
	a.Write(s.transfer(b, 1, seq(0, 8), seq(0, 8), "late"))
	s.arrives(g, b, 2)
	b.Revoke(1)
	quiet[agent.Revoked](b, a)
	g.Open()
	await(b, every[agent.Revoked])
	after := bytes.Clone(b.pool)
	if !bytes.Equal(a.pool[:3*block], after[:3*block]) {
		s.Error("the frame is not finished")
	}
	if err := a.done(s.ids); !errors.Is(err, agent.ErrRefused) {
		s.Errorf("%v", err)
	}
	quiet[agent.Notice](b, a)
	if !bytes.Equal(after, b.pool) {
		s.Error("a byte landed after Revoked")
	}
	b.untouched(0, 1, 2)
	a.works(b)
}

// A frame that does not finish within the grace costs the connection: then Revoked comes, and
// no byte after it.
//
// req: PIPE-32
// case: 05
func revokeEndsASlowFrame(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g, FrameBytes: block, RevokeGrace: 20 * time.Millisecond})
	noise(a.pool, 1)
	b.Grant(1, a.life(), blocksOf(seq(0, 8)))
	g.Allow(5 * block / 2)
	a.Write(s.transfer(b, 1, seq(0, 8), seq(0, 8), "late"))
	s.arrives(g, b, 2)
	b.Revoke(1)
	await(b, every[agent.Revoked])
	after := bytes.Clone(b.pool)
	g.Open()
	if e := await(b, every[agent.PeerLost]); !errors.Is(e.Err, agent.ErrRevokeGrace) {
		s.Errorf("%v", e.Err)
	}
	if err := a.done(s.ids); !errors.Is(err, agent.ErrPeerLost) {
		s.Errorf("%v", err)
	}
	await(a, every[agent.PeerLost])
	a.connect(b)
	quiet[agent.Notice](b, a)
	if !bytes.Equal(after, b.pool) {
		s.Error("a byte landed after Revoked")
	}
}

// arrives waits until bytes of a block have landed, and the others are held.
func (s *suite) arrives(g *fault.Gate, n *node, i int32) {
	s.Helper()
	<-g.Held()
	deadline := time.Now().Add(patience)
	for peek(n.block(i)) == poison {
		if time.Now().After(deadline) {
			s.Fatalf("nothing arrives in block %d", i)
		}
		runtime.Gosched()
	}
}

// peek reads a byte that the agent may be writing: that is the point of it.
//
//go:norace
//go:noinline
func peek(b []byte) byte { return b[0] }
