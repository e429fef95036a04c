package agenttest

import (
	"bytes"
	"errors"
	"sync"

	"kvferry/agent"
	"kvferry/agent/fault"
)

// endings are the ways in which a pair ends in the middle of a transfer.
var endings = map[string]func(sender, receiver *node){
	"sender drops":    func(a, b *node) { a.Drop(b.life(), errors.New("why not")) },
	"receiver drops":  func(a, b *node) { b.Drop(a.life(), errors.New("why not")) },
	"sender closes":   func(a, _ *node) { a.close() },
	"receiver closes": func(_, b *node) { b.close() },
}

// A write that its peer's loss ends gives Done before PeerLost, its notice is not delivered,
// and nothing lands after PeerLost.
//
// req: PIPE-32
// case: 05
func peerLostInAWrite(s *suite) {
	for name, end := range endings {
		g := fault.NewGate()
		a, b := s.pair(Options{Gate: g, FrameBytes: block})
		noise(a.pool, 1)
		b.Grant(1, a.life(), blocksOf(seq(0, 8)))
		g.Allow(5 * block / 2)
		a.Write(s.transfer(b, 1, seq(0, 8), seq(0, 8), "late"))
		// This one has not begun.
		a.Write(s.transfer(b, 1, nil, nil, "later"))
		s.arrives(g, b, 2)
		end(a, b)
		await(b, every[agent.PeerLost])
		after := bytes.Clone(b.pool)
		g.Open()
		for range 2 {
			a.doneBeforeLost(name)
		}
		await(a, every[agent.PeerLost])
		a.close()
		b.close()
		if len(b.came) > 0 {
			s.Errorf("%s: the receiver also got %s", name, b.list())
		}
		if !bytes.Equal(after, b.pool) {
			s.Errorf("%s: a byte landed after PeerLost", name)
		}
	}
}

// doneBeforeLost waits for the next end of a transfer: with an error, and no PeerLost before.
func (n *node) doneBeforeLost(name string) {
	n.s.Helper()
	d := await(n, every[agent.Done])
	if !errors.Is(d.Err, agent.ErrPeerLost) {
		n.s.Errorf("%s: %v", name, d.Err)
	}
	for i, e := range n.came {
		if l, ok := e.(agent.PeerLost); ok && i < len(n.came)-1 {
			n.s.Errorf("%s: %v came before", name, l)
		}
	}
}

// A read that its peer's loss ends gives Done before PeerLost, and our memory is our own
// again then.
func peerLostInARead(s *suite) {
	for name, end := range endings {
		g := fault.NewGate()
		a, b := s.pair(Options{Gate: g, FrameBytes: block})
		noise(a.pool, 1)
		g.Allow(5 * block / 2)
		b.Read(s.transfer(a, 0, seq(0, 8), seq(0, 8), ""))
		s.arrives(g, b, 2)
		end(a, b)
		b.doneBeforeLost(name)
		fill(b.pool, poison)
		g.Open()
		await(b, every[agent.PeerLost])
		a.close()
		b.close()
		b.untouched()
	}
}

// Close ends everything in flight and then the events.
func closeEndsAll(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g, FrameBytes: block})
	c := s.node(Options{})
	a.connect(c)
	b.Grant(1, a.life(), blocksOf(seq(0, 8)))
	g.Allow(0)
	a.Write(s.transfer(b, 1, seq(0, 8), seq(0, 8), ""))
	a.Write(s.transfer(b, 1, seq(0, 8), seq(0, 8), ""))
	<-g.Held()
	a.close()
	for range 2 {
		if d := await(a, every[agent.Done]); !errors.Is(d.Err, agent.ErrClosed) || !errors.Is(d.Err, agent.ErrPeerLost) {
			s.Errorf("%v", d.Err)
		}
	}
	for range 2 {
		if e := await(a, every[agent.PeerLost]); !errors.Is(e.Err, agent.ErrClosed) {
			s.Errorf("%v", e.Err)
		}
	}
	if len(a.came) > 0 {
		s.Errorf("also came %s", a.list())
	}
	await(b, every[agent.PeerLost])
	await(c, every[agent.PeerLost])
	b.untouched()
	// What is called late does no harm.
	a.close()
	a.Connect(b.Addr())
	a.Notify(b.life(), []byte("late"))
	a.Write(s.transfer(b, 1, []int32{0}, []int32{0}, ""))
	a.Drop(b.life(), nil)
	a.Revoke(1)
	quiet[agent.PeerUp](b, b.connected(c))
}

// connected connects a third node, and gives it.
func (n *node) connected(to *node) *node {
	n.connect(to)
	return to
}

// Whatever happens, every transfer ends exactly once, and one that succeeded did so.
//
// case: 19
func doneExactlyOnce(s *suite) {
	const writers, each, rounds = 6, 40, 8
	a, b := s.pair(Options{FrameBytes: block})
	noise(a.pool, 1)
	b.Grant(1, a.life(), blocksOf(seq(0, blocks)))
	var wg sync.WaitGroup
	for w := range uint64(writers) {
		wg.Go(func() {
			for i := range uint64(each) {
				t := agent.Transfer{
					ID: 1 + w*each + i, Peer: b.life(), Local: list(), LocalIdx: seq(0, 20),
					Remote: list(), RemoteIdx: seq(int32(20*w), 20), Epoch: 1,
				}
				if i%3 == 0 {
					a.Read(t)
				} else {
					a.Write(t)
				}
			}
		})
	}
	for i := range rounds {
		d := [][2]*node{{a, b}, {b, a}}[i%2]
		d[0].Drop(d[1].life(), nil)
		await(a, every[agent.PeerLost])
		await(b, every[agent.PeerLost])
		d[1].Connect(d[0].Addr())
		await(a, every[agent.PeerUp])
		await(b, every[agent.PeerUp])
	}
	wg.Wait()
	var ended [1 + writers*each]int
	for range writers * each {
		d := await(a, every[agent.Done])
		ended[d.ID]++
		if d.Err != nil && !errors.Is(d.Err, agent.ErrPeerLost) && !errors.Is(d.Err, agent.ErrUnknownPeer) {
			s.Errorf("%v", d.Err)
		}
	}
	a.close()
	for id, n := range ended[1:] {
		if n != 1 {
			s.Errorf("transfer %d ended %d times", id+1, n)
		}
	}
	if len(a.came) > 1 { // the last PeerLost
		s.Errorf("also came %s", a.list())
	}
}
