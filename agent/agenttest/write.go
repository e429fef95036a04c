package agenttest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/wire"
)

func capabilities(s *suite) {
	a := s.node(Options{})
	if c := a.Capabilities(); !c.OneSidedWrite || !c.OneSidedRead {
		s.Errorf("%+v: the suite is for agents that write and read", c)
	}
}

func registerAfterStart(s *suite) {
	a := s.node(Options{})
	if _, err := a.Register(make([]byte, 1)); err == nil {
		s.Error("a region is registered after Start")
	}
	if err := a.Start(s.hello()); err == nil {
		s.Error("the agent starts twice")
	}
}

// The bytes land where they should and nowhere else, before the notice comes, and Done
// follows.
//
// req: PIPE-13
func writeLands(s *suite) {
	a, b := s.pair(Options{})
	noise(a.pool, 1)
	b.Grant(7, a.life(), blocksOf([]int32{10, 12, 13}))
	a.Write(s.transfer(b, 7, []int32{0, 5, 2}, []int32{12, 10, 13}, "landed"))
	e := await(b, every[agent.Notice])
	if string(e.Payload) != "landed" || e.Peer != a.life() {
		s.Errorf("notice %q of %s", e.Payload, e.Peer)
	}
	for l, r := range map[int32]int32{0: 12, 5: 10, 2: 13} {
		if !bytes.Equal(a.block(l), b.block(r)) {
			s.Errorf("block %d of the peer is not our block %d", r, l)
		}
	}
	b.untouched(10, 12, 13)
	if err := a.done(s.ids); err != nil {
		s.Error(err)
	}
	quiet[agent.Notice](b, a)
	quiet[agent.Done](a, b)
}

// A last slice may have no blocks and still carries its notice; it needs a grant all the same.
func writeOfNothing(s *suite) {
	a, b := s.pair(Options{})
	b.Grant(1, a.life(), nil)
	a.Write(s.transfer(b, 1, nil, nil, "nothing"))
	if err := a.done(s.ids); err != nil {
		s.Error(err)
	}
	if e := await(b, every[agent.Notice]); string(e.Payload) != "nothing" {
		s.Errorf("notice %q", e.Payload)
	}
	empty := s.transfer(b, 1, nil, nil, "")
	empty.Notice = []byte{}
	a.Write(empty)
	if e := await(b, every[agent.Notice]); e.Payload == nil || len(e.Payload) > 0 {
		s.Errorf("notice %v where an empty one was sent", e.Payload)
	}
	a.Write(s.transfer(b, 1, nil, nil, ""))
	if err := a.done(s.ids); err != nil {
		s.Error(err)
	}
	quiet[agent.Notice](b, a)
	if !b.Capabilities().Fencing {
		return
	}
	a.Write(s.transfer(b, 2, nil, nil, "not granted"))
	if err := a.done(s.ids); !errors.Is(err, agent.ErrRefused) {
		s.Errorf("without a grant: %v", err)
	}
	quiet[agent.Notice](b, a)
}

// planned is a write whose ranges are drawn anywhere, with what its receiver must then hold.
type planned struct {
	from, to *node
	epoch    uint64
	remote   agent.List
	local    agent.List // of region 1
}

// plan draws a write into whole blocks of the peer that nobody else writes, of which only a
// part is granted and written.
func (s *suite) plan(r *rand.Rand, from, to *node, epoch uint64, free []int32) *planned {
	p := &planned{from: from, to: to, epoch: epoch}
	for _, i := range free {
		off := r.Uint64N(block)
		length := 1 + r.Uint64N(block-off)
		p.remote = append(p.remote, agent.Desc{Offset: uint64(i)*block + off, Length: length})
		p.local = append(p.local, agent.Desc{Region: 1, Offset: r.Uint64N(otherSize - length + 1), Length: length})
	}
	return p
}

func (p *planned) start(s *suite, id uint64) {
	n := int32(len(p.remote))
	p.from.Write(agent.Transfer{
		ID: id, Peer: p.to.life(), Local: p.local, LocalIdx: seq(0, n), Remote: p.remote, RemoteIdx: seq(0, n),
		Epoch: p.epoch, Notice: binary.BigEndian.AppendUint64(nil, p.epoch),
	})
}

// landed says whether all the bytes are there. It is asked when the notice comes.
func (p *planned) landed() error {
	for i, r := range p.remote {
		l := p.local[i]
		if !bytes.Equal(p.to.pool[r.Offset:r.Offset+r.Length], p.from.other[l.Offset:l.Offset+l.Length]) {
			return fmt.Errorf("epoch %d: range %d is not there", p.epoch, i)
		}
	}
	return nil
}

// expect writes into what the receiver's pool must be in the end.
func (p *planned) expect(pool []byte) {
	for i, r := range p.remote {
		l := p.local[i]
		copy(pool[r.Offset:r.Offset+r.Length], p.from.other[l.Offset:])
	}
}

// traffic makes n writes in each direction, of which some share a frame and some need many,
// and checks each when its notice comes, and every byte at the end.
func (s *suite) traffic(n int, start func(ps []*planned)) {
	a, b := s.pair(Options{FrameBytes: 3 * block / 2})
	noise(a.other, 1)
	noise(b.other, 2)
	r := rand.New(rand.NewPCG(3, 4))
	want := map[*node][]byte{a: bytes.Clone(a.pool), b: bytes.Clone(b.pool)}
	var ps []*planned
	byEpoch := map[uint64]*planned{}
	for _, dir := range [][2]*node{{a, b}, {b, a}} {
		for _, free := range shares(r, n) {
			p := s.plan(r, dir[0], dir[1], uint64(len(ps)+1), free)
			p.to.Grant(p.epoch, p.from.life(), p.remote)
			p.expect(want[p.to])
			byEpoch[p.epoch] = p
			ps = append(ps, p)
		}
	}
	r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	start(ps)
	for _, to := range []*node{a, b} {
		for range n {
			e := await(to, every[agent.Notice])
			p := byEpoch[binary.BigEndian.Uint64(e.Payload)]
			if err := p.landed(); err != nil || p.to != to {
				s.Errorf("the notice came too early, or astray: %v", err)
			}
			delete(byEpoch, p.epoch)
		}
		for range n {
			if d := await(to, every[agent.Done]); d.Err != nil {
				s.Error(d.Err)
			}
		}
	}
	for to, pool := range want {
		if !bytes.Equal(to.pool, pool) {
			s.Error("bytes landed that nobody wrote")
		}
	}
}

// shares deals the blocks out to n writes at random; some get none.
func shares(r *rand.Rand, n int) [][]int32 {
	out := make([][]int32, n)
	for _, i := range r.Perm(blocks) {
		// The square makes some writes much larger than others.
		k := r.IntN(n) * r.IntN(n) / n
		out[k] = append(out[k], int32(i))
	}
	return out
}

func randomWrites(s *suite) {
	s.traffic(60, func(ps []*planned) {
		for _, p := range ps {
			p.start(s, p.epoch)
		}
	})
}

func concurrentWrites(s *suite) {
	s.traffic(40, func(ps []*planned) {
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() { p.start(s, p.epoch) })
		}
		wg.Wait()
	})
}

// One range may be larger than a frame, and a write larger than many.
func largeWrite(s *suite) {
	a, b := s.pair(Options{FrameBytes: 10000})
	noise(a.pool, 5)
	whole := agent.List{{Length: blocks * block}}
	b.Grant(1, a.life(), whole)
	a.Write(agent.Transfer{
		ID: 1, Peer: b.life(), Local: whole, LocalIdx: []int32{0}, Remote: whole, RemoteIdx: []int32{0},
		Epoch: 1, Notice: []byte("all"),
	})
	await(b, every[agent.Notice])
	if !bytes.Equal(a.pool, b.pool) {
		s.Error("the pools differ")
	}
	if err := a.done(1); err != nil {
		s.Error(err)
	}
	quiet[agent.Notice](b, a)
}

// Several writes of several epochs, all asked for at once: those of one epoch one after the other, while
// the others' go on, so that they do not begin in the order in which they were asked for.
func epochsTakeTurns(s *suite) {
	g := fault.NewGate()
	a, b := s.pair(Options{Gate: g, FrameBytes: block})
	noise(a.pool, 3)
	const epochs, writes, each, before = 3, 4, 8, 100
	for e := range int32(epochs) {
		b.Grant(uint64(e+1), a.life(), blocksOf(seq(e*writes*each, writes*each)))
	}
	// So much goes before that they all wait.
	b.Grant(99, a.life(), blocksOf(seq(epochs*writes*each, before)))
	g.Allow(0)
	a.Write(s.transfer(b, 99, seq(epochs*writes*each, before), seq(epochs*writes*each, before), ""))
	for e := range int32(epochs) {
		for w := range int32(writes) {
			idx := seq((e*writes+w)*each, each)
			a.Write(s.transfer(b, uint64(e+1), idx, idx, fmt.Sprint(e, w)))
		}
	}
	g.Open()
	for id := s.ids - epochs*writes; id <= s.ids; id++ {
		if err := a.done(id); err != nil {
			s.Error(err)
		}
	}
	for e := range epochs {
		for w := range writes {
			await(b, func(n agent.Notice) bool { return string(n.Payload) == fmt.Sprint(e, w) })
		}
	}
	if n := epochs * writes * each * block; !bytes.Equal(a.pool[:n], b.pool[:n]) {
		s.Error("the bytes are not those that were written")
	}
}

// A transfer's lists are checked before anything is sent.
func badLists(s *suite) {
	a, b := s.pair(Options{})
	b.Grant(1, a.life(), blocksOf(seq(0, blocks)))
	for name, spoil := range map[string]func(*agent.Transfer){
		"more local than remote": func(t *agent.Transfer) { t.LocalIdx = []int32{0, 1} },
		"local index":            func(t *agent.Transfer) { t.LocalIdx = []int32{blocks} },
		"negative local index":   func(t *agent.Transfer) { t.LocalIdx = []int32{-1} },
		"remote index":           func(t *agent.Transfer) { t.RemoteIdx = []int32{blocks} },
		"negative remote index":  func(t *agent.Transfer) { t.RemoteIdx = []int32{-1} },
		"lengths":                func(t *agent.Transfer) { t.Remote = agent.List{{Length: block - 1}} },
		"local region":           func(t *agent.Transfer) { t.Local = agent.List{{Region: 2, Length: block}} },
		"end of local region": func(t *agent.Transfer) {
			t.Local = agent.List{{Region: 1, Offset: otherSize - block + 1, Length: block}}
		},
		"local overflow":  func(t *agent.Transfer) { t.Local = agent.List{{Offset: 1<<64 - block, Length: block}} },
		"remote overflow": func(t *agent.Transfer) { t.Remote = agent.List{{Offset: 1<<64 - block + 1, Length: block}} },
		"long notice":     func(t *agent.Transfer) { t.Notice = make([]byte, wire.MaxNotice+1) },
	} {
		for kind, start := range map[string]func(agent.Transfer){"write": a.Write, "read": a.Read} {
			t := s.transfer(b, 1, []int32{0}, []int32{0}, "bad")
			spoil(&t)
			start(t)
			err := a.done(t.ID)
			var e *agent.Error
			if !errors.Is(err, agent.ErrBadTransfer) || !errors.As(err, &e) || e.Peer != b.life() || e.Op != kind || e.Transfer != t.ID {
				s.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
	b.untouched()
	quiet[agent.Notice](b, a)
}

func unknownPeer(s *suite) {
	a, b := s.node(Options{}), s.node(Options{})
	for _, start := range []func(agent.Transfer){a.Write, a.Read} {
		start(s.transfer(b, 1, []int32{0}, []int32{0}, ""))
		err := a.done(s.ids)
		var e *agent.Error
		if !errors.Is(err, agent.ErrUnknownPeer) || !errors.As(err, &e) || e.Peer != b.life() {
			s.Error(err)
		}
	}
	a.Notify(b.life(), []byte("nobody"))
	a.Drop(b.life(), errors.New("nobody"))
	a.connect(b)
	quiet[agent.PeerLost](a, b)
	quiet[agent.Notice](b, a)
}
