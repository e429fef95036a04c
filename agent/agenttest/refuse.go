package agenttest

import (
	"errors"

	"kvferry/agent"
)

// What no open epoch of this very peer covers is refused; nothing of it lands, and its notice
// is not delivered.
//
// req: PIPE-32
func refused(s *suite) {
	a, b := s.pair(Options{})
	c := s.node(Options{})
	c.connect(b)
	b.Grant(1, a.life(), []agent.Desc{{Offset: 2 * block, Length: block}, {Offset: 4 * block, Length: 2 * block}})
	b.Grant(2, c.life(), blocksOf(seq(0, blocks)))
	b.Grant(3, a.life(), blocksOf(seq(0, blocks)))
	b.Grant(4, a.life(), []agent.Desc{{Length: 1 << 40}, {Region: 9, Length: 1 << 40}})
	b.Revoke(3)
	await(b, every[agent.Revoked])
	for name, c := range map[string]struct {
		epoch  uint64
		remote agent.Desc
	}{
		"no grant":             {99, agent.Desc{Offset: 2 * block, Length: block}},
		"revoked":              {3, agent.Desc{Offset: 2 * block, Length: block}},
		"another life's":       {2, agent.Desc{Offset: 2 * block, Length: block}},
		"a byte before":        {1, agent.Desc{Offset: 2*block - 1, Length: block}},
		"a byte after":         {1, agent.Desc{Offset: 2*block + 1, Length: block}},
		"before the first":     {1, agent.Desc{Offset: 0, Length: block}},
		"after the last":       {1, agent.Desc{Offset: 6 * block, Length: block}},
		"across a gap":         {1, agent.Desc{Offset: 2 * block, Length: 3 * block}},
		"another region":       {1, agent.Desc{Region: 1, Offset: 2 * block, Length: block}},
		"an unknown region":    {4, agent.Desc{Region: 9, Length: block}},
		"past the region":      {4, agent.Desc{Offset: blocks*block - block + 1, Length: block}},
		"far past the region":  {4, agent.Desc{Offset: 1 << 39, Length: block}},
		"all of it and beyond": {1, agent.Desc{Length: 8 * block}},
	} {
		a.Write(agent.Transfer{
			ID: s.id(), Peer: b.life(), Epoch: c.epoch, Notice: []byte(name),
			Local: agent.List{{Length: c.remote.Length}}, LocalIdx: []int32{0},
			Remote: agent.List{c.remote}, RemoteIdx: []int32{0},
		})
		err := a.done(s.ids)
		var e *agent.Error
		if !errors.Is(err, agent.ErrRefused) || !errors.As(err, &e) || e.Peer != b.life() {
			s.Errorf("%s: %v", name, err)
		}
	}
	quiet[agent.Notice](b, a)
	b.untouched()
	// The connection serves on, and a range across two that were granted side by side is good.
	noise(a.pool, 1)
	two := agent.List{{Offset: 4 * block, Length: 2 * block}}
	b.Grant(5, a.life(), []agent.Desc{{Offset: 5 * block, Length: block}, {Offset: 4 * block, Length: block}})
	a.Write(agent.Transfer{
		ID: s.id(), Peer: b.life(), Epoch: 5, Local: two, LocalIdx: []int32{0}, Remote: two, RemoteIdx: []int32{0},
	})
	if err := a.done(s.ids); err != nil {
		s.Error(err)
	}
}
