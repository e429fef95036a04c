package agenttest

import (
	"errors"
	"strings"

	"kvferry/agent"
	"kvferry/wire"
)

func failed(n *node, addr string) error {
	n.s.Helper()
	e := await(n, every[agent.ConnectFailed])
	var err *agent.Error
	if e.Addr != addr || !errors.As(e.Err, &err) || err.Addr != addr || err.Op != "connect" {
		n.s.Errorf("connecting to %s failed: %+v", addr, e)
	}
	return e.Err
}

func connectToNobody(s *suite) {
	a, b := s.node(Options{}), s.node(Options{})
	addr := b.Addr()
	b.close()
	a.Connect(addr)
	if err := failed(a, addr); err == nil || !strings.Contains(err.Error(), addr) {
		s.Error(err)
	}
}

func connectToSelf(s *suite) {
	a := s.node(Options{})
	a.Connect(a.Addr())
	if err := failed(a, a.Addr()); !errors.Is(err, agent.ErrSelf) {
		s.Error(err)
	}
}

func connectBeforeStart(s *suite) {
	a, b := s.made(Options{}, s.hello()), s.node(Options{})
	a.Connect(b.Addr())
	_ = failed(a, b.Addr())
	if err := a.Start(a.hello); err != nil {
		s.Fatal(err)
	}
	a.connect(b)
}

// Connecting to a peer that is up gives PeerUp again, and what is up stays so.
func connectAgain(s *suite) {
	a, b := s.pair(Options{})
	for _, d := range [][2]*node{{a, b}, {b, a}, {a, b}} {
		d[0].Connect(d[1].Addr())
		e := await(d[0], every[agent.PeerUp])
		if e.Addr != d[1].Addr() || e.Hello.Life != d[1].life() || e.Hello.Identity.Check(d[1].hello.Identity) != nil {
			s.Errorf("%+v", e)
		}
	}
	a.works(b)
	b.works(a)
	quiet[agent.PeerLost](a, b)
	quiet[agent.PeerLost](b, a)
}

// works fails unless a write gets there.
func (n *node) works(peer *node) {
	n.s.Helper()
	epoch := n.s.id()
	peer.Grant(epoch, n.life(), blocksOf([]int32{0}))
	n.Write(n.s.transfer(peer, epoch, []int32{1}, []int32{0}, "works"))
	if err := n.done(n.s.ids); err != nil {
		n.s.Error(err)
	}
	await(peer, func(e agent.Notice) bool { return e.Peer == n.life() && string(e.Payload) == "works" })
}

// Two that dial each other at once become one pair, and each is told so.
func connectFromBothEnds(s *suite) {
	for range 20 {
		a, b := s.node(Options{}), s.node(Options{})
		a.Connect(b.Addr())
		b.Connect(a.Addr())
		for _, d := range [][2]*node{{a, b}, {b, a}} {
			await(d[0], func(e agent.PeerUp) bool { return e.Addr == d[1].Addr() && e.Hello.Life == d[1].life() })
		}
		a.works(b)
		b.works(a)
		quiet[agent.PeerLost](a, b)
		quiet[agent.PeerLost](b, a)
		quiet[agent.ConnectFailed](a, b)
		quiet[agent.ConnectFailed](b, a)
	}
}

// A peer to which KV would mean something else is refused on both sides by the name of what
// differs, whoever dials.
//
// case: 07
func identityMismatch(s *suite) {
	a := s.node(Options{})
	for field, spoil := range map[string]func(*wire.Identity){
		"protocol version": func(i *wire.Identity) { i.Version++ },
		"model":            func(i *wire.Identity) { i.Model = "abd" },
		"kv dtype":         func(i *wire.Identity) { i.DType = "f32" },
		"block tokens":     func(i *wire.Identity) { i.BlockTokens = 32 },
		"kv heads":         func(i *wire.Identity) { i.KVHeads = 8 },
		"head dim":         func(i *wire.Identity) { i.HeadDim = 64 },
		"layer groups":     func(i *wire.Identity) { i.Groups = i.Groups[:1] },
	} {
		h := s.hello()
		spoil(&h.Identity)
		b := s.made(Options{}, h)
		if err := b.Start(h); err != nil {
			s.Fatal(err)
		}
		var seen [2]*wire.MismatchError
		for i, d := range [][2]*node{{a, b}, {b, a}} {
			d[0].Connect(d[1].Addr())
			err := failed(d[0], d[1].Addr())
			if !errors.As(err, &seen[i]) || seen[i].Field != field {
				s.Fatalf("%s: %v", field, err)
			}
		}
		if seen[0].Ours != seen[1].Theirs || seen[0].Theirs != seen[1].Ours || seen[0].Ours == seen[0].Theirs {
			s.Errorf("%s: one says %v, the other %v", field, seen[0], seen[1])
		}
	}
}

// A process that comes back under its address is another life: it has none of the old
// one's grants, and nobody takes it for the old one.
//
// case: 05
func restartIsAnotherLife(s *suite) {
	old, b := s.pair(Options{})
	b.Grant(1, old.life(), blocksOf(seq(0, blocks)))
	addr := old.Addr()
	old.close()
	await(b, func(e agent.PeerLost) bool { return e.Peer == old.life() })
	young := s.node(Options{Addr: addr})
	b.Connect(addr)
	if e := await(b, every[agent.PeerUp]); e.Hello.Life != young.life() {
		s.Errorf("%s is up, not %s", e.Hello.Life, young.life())
	}
	await(young, every[agent.PeerUp])
	b.Write(s.transfer(old, 1, nil, nil, ""))
	if err := b.done(s.ids); !errors.Is(err, agent.ErrUnknownPeer) {
		s.Errorf("to the old life: %v", err)
	}
	if b.Capabilities().Fencing {
		young.Write(s.transfer(b, 1, []int32{0}, []int32{0}, "late"))
		if err := young.done(s.ids); !errors.Is(err, agent.ErrRefused) {
			s.Errorf("into the old life's epoch: %v", err)
		}
		quiet[agent.Notice](b, young)
		b.untouched()
	}
	young.works(b)
	b.works(young)
}

// A dropped peer is lost on both sides, with the cause, and can be connected again, even at
// once.
func dropAndConnectAgain(s *suite) {
	a, b := s.pair(Options{})
	for i, d := range [][2]*node{{a, b}, {b, a}, {a, b}, {b, a}} {
		d[0].Drop(d[1].life(), errors.New("had enough"))
		if i >= 2 {
			d[0].Connect(d[1].Addr())
		}
		for _, n := range d {
			e := await(n, every[agent.PeerLost])
			var err *agent.Error
			if !errors.Is(e.Err, agent.ErrPeerLost) || !errors.As(e.Err, &err) || err.Peer != e.Peer {
				s.Errorf("%v", e)
			}
			if !strings.Contains(e.Err.Error(), "had enough") {
				s.Errorf("the cause is not told: %v", e.Err)
			}
		}
		if i < 2 {
			d[0].Connect(d[1].Addr())
		}
		await(d[0], every[agent.PeerUp])
		await(d[1], every[agent.PeerUp])
		a.works(b)
		b.works(a)
	}
}
