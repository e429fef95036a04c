package agenttest

import (
	"bytes"
	"fmt"
	"strings"

	"kvferry/agent"
	"kvferry/agent/fault"
)

// Notices alone come in order, and so do those of one epoch's writes.
func noticesInOrder(s *suite) {
	const n = 300
	a, b := s.pair(Options{})
	for _, d := range [][2]*node{{a, b}, {b, a}} {
		d[1].Grant(1, d[0].life(), blocksOf(seq(0, blocks)))
	}
	for i := range n {
		for _, d := range [][2]*node{{a, b}, {b, a}} {
			d[0].Notify(d[1].life(), fmt.Append(nil, "alone ", i))
			d[0].Write(s.transfer(d[1], 1, []int32{int32(100 + i%9)}, []int32{int32(i % 7)}, fmt.Sprint("write ", i)))
		}
	}
	for _, to := range []*node{a, b} {
		for _, kind := range []string{"alone", "write"} {
			for i := range n {
				e := await(to, func(e agent.Notice) bool { return strings.HasPrefix(string(e.Payload), kind) })
				if want := fmt.Sprint(kind, " ", i); string(e.Payload) != want {
					s.Fatalf("%q where %q is next", e.Payload, want)
				}
			}
		}
	}
}

// A write's notice and its Done wait for the write's last byte.
//
// req: PIPE-13
func noticeWaitsForTheLastByte(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g})
	noise(a.pool, 1)
	b.Grant(1, a.life(), blocksOf([]int32{3}))
	g.Allow(block - 1) // the frame's header takes some of it
	a.Write(s.transfer(b, 1, []int32{0}, []int32{3}, "landed"))
	s.arrives(g, b, 3)
	quiet[agent.Notice](b, a)
	quiet[agent.Done](a, b)
	g.Open()
	await(b, every[agent.Notice])
	if !bytes.Equal(a.block(0), b.block(3)) {
		s.Error("the notice came before the last byte")
	}
	if err := a.done(s.ids); err != nil {
		s.Error(err)
	}
}

// A notice alone comes while the bulk connection does not move at all.
func notifyPassesBulk(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g})
	b.Grant(1, a.life(), blocksOf(seq(0, blocks)))
	g.Allow(0)
	a.Write(s.transfer(b, 1, seq(0, blocks), seq(0, blocks), "bulk"))
	<-g.Held()
	for i := range 10 {
		a.Notify(b.life(), fmt.Append(nil, i))
	}
	for i := range 10 {
		if e := await(b, every[agent.Notice]); string(e.Payload) != fmt.Sprint(i) {
			s.Errorf("notice %q", e.Payload)
		}
	}
	quiet[agent.Done](a, b)
	g.Open()
	if err := a.done(s.ids); err != nil {
		s.Error(err)
	}
	if e := await(b, every[agent.Notice]); string(e.Payload) != "bulk" {
		s.Errorf("notice %q", e.Payload)
	}
}

// A large transfer takes turns with another receive's short one.
func shortWriteIsNotHeldUp(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g, FrameBytes: block})
	b.Grant(1, a.life(), blocksOf(seq(0, 200)))
	b.Grant(2, a.life(), blocksOf([]int32{200}))
	g.Allow(0)
	a.Write(s.transfer(b, 1, seq(0, 200), seq(0, 200), "long"))
	<-g.Held()
	a.Write(s.transfer(b, 2, []int32{0}, []int32{200}, "short"))
	for range 50 { // two frames a step, of more than 200
		g.Allow(2 * block)
		<-g.Held()
	}
	if e := await(b, every[agent.Notice]); string(e.Payload) != "short" {
		s.Errorf("notice %q", e.Payload)
	}
	g.Open()
	if e := await(b, every[agent.Notice]); string(e.Payload) != "long" {
		s.Errorf("notice %q", e.Payload)
	}
}

// The caller may use its buffer again once Notify has returned.
func noticeIsCopied(s *suite) {
	a, b := s.pair(Options{})
	p := []byte("before")
	a.Notify(b.life(), p)
	copy(p, "after!")
	if e := await(b, every[agent.Notice]); string(e.Payload) != "before" {
		s.Errorf("notice %q", e.Payload)
	}
}
