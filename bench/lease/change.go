package lease

import "kvferry/wire"

// change is one lease that joins or leaves.
type change struct {
	peer  *peer
	lease wire.Lease
	joins bool
}

// plan draws what changes in the n-th step: joins and leaves in turn, each at a peer that lives.
func (b *bed) plan(n int64) []change {
	rate := int64(b.o.Changes)
	from, to := rate*n*step/second, rate*(n+1)*step/second
	var out []change
	for i := from; i < to; i++ {
		p := b.peers[b.o.silent()+b.rng.IntN(b.o.Peers-b.o.silent())]
		if i%2 == 0 || len(p.leases) == 0 {
			l := b.draw()
			p.leases = append(p.leases, l)
			out = append(out, change{p, l, true})
			continue
		}
		at, last := b.rng.IntN(len(p.leases)), len(p.leases)-1
		l := p.leases[at]
		p.leases[at] = p.leases[last]
		p.leases = p.leases[:last]
		out = append(out, change{p, l, false})
	}
	return out
}

const second = int64(1e9)

// serve is one step of granter and readers: what changes, and the heartbeats that are due.
func (b *bed) serve(todo []change, m *meter) error {
	for _, c := range todo {
		if c.joins {
			b.join(c.peer, c.lease)
		} else if err := b.leave(c.peer, c.lease); err != nil {
			return err
		}
	}
	return b.beats(m)
}

func (n *named) change(todo []change) {
	for _, c := range todo {
		if c.joins {
			n.join(c.lease)
		} else {
			n.leave(c.lease)
		}
	}
}
