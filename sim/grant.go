package sim

import (
	"errors"
	"fmt"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// graceBlocks is how many blocks' time a revoked epoch's block may take to land before its
// link is closed.
const graceBlocks = 20

var errGrace = errors.New("a revoked receive was still being written")

// grant is an open receive epoch, as the receiver's agent keeps it.
type grant struct {
	epoch   uint64
	peer    wire.Life
	blocks  [][]kvcache.BlockID
	landing int // blocks of it that are landing now
	revoked bool
}

func (g *grant) covers(group int, b kvcache.BlockID) bool {
	for _, x := range g.blocks[group] {
		if x == b {
			return true
		}
	}
	return false
}

func (p *proc) grantOf(epoch uint64) *grant {
	for _, g := range p.grants {
		if g.epoch == epoch {
			return g
		}
	}
	return nil
}

// grant opens an epoch. All its blocks belong to one request, and to nobody else.
func (p *proc) grant(o transfer.Grant) {
	owner := -1
	for g, list := range o.Blocks {
		for _, b := range list {
			s := p.mem.slot(g, b)
			if owner < 0 && len(s.holders) > 0 {
				owner = s.holders[0].request
			}
			if !s.sole(owner) {
				p.w.fail("one owner", "%s: epoch %d grants block %d of group %d, which is not its request's alone", p.node.name, o.Epoch, b, g)
			}
		}
	}
	if _, used := p.owners[o.Epoch]; used {
		p.w.fail("one owner", "%s: epoch %d is granted twice", p.node.name, o.Epoch)
	}
	p.owners[o.Epoch] = owner
	p.grants = append(p.grants, &grant{epoch: o.Epoch, peer: o.Peer, blocks: o.Blocks})
}

// granted learns from the registration whose epoch it is, which a grant without blocks does
// not show.
func (p *proc) granted(epoch uint64, request int) {
	if owner := p.owners[epoch]; owner >= 0 && owner != request {
		p.w.fail("one owner", "%s: epoch %d is granted to %s and registered for %s", p.node.name, epoch, p.w.id(owner), p.w.id(request))
	}
	p.owners[epoch] = request
}

// revoke closes an epoch. An agent that fences says so when no byte can land any more; one that
// cannot says so at once, and bytes may still land.
func (p *proc) revoke(epoch uint64) {
	w := p.w
	g := p.grantOf(epoch)
	if g == nil || g.revoked {
		w.fail("protocol", "%s revokes epoch %d, which is not open", p.node.name, epoch)
		return
	}
	r := p.owners[epoch]
	g.revoked = true
	w.logf("%s revokes epoch %d of %s", p.node.name, epoch, w.id(r))
	w.hook(r, AtRevoke)
	if !w.plan.Cluster.Fencing || g.landing == 0 {
		p.revokedSoon(g)
		return
	}
	w.after(graceBlocks*w.plan.Cluster.BlockTime, func() {
		for _, l := range append([]*link(nil), p.links...) {
			if g.landing > 0 && l.lands(p, g) {
				l.down(p, errGrace)
			}
		}
	})
}

// revokedSoon tells the engine that the epoch is closed, a moment later.
func (p *proc) revokedSoon(g *grant) {
	w := p.w
	for i, x := range p.grants {
		if x == g {
			p.grants = append(p.grants[:i:i], p.grants[i+1:]...)
			break
		}
	}
	w.after(w.jitter('v', g.epoch, uint64(p.node.index))/8, func() {
		if p.dead {
			return
		}
		w.hook(p.owners[g.epoch], AtRevoked)
		p.deliver(engine.EpochRevoked{Epoch: g.epoch})
	})
}

// left ends the landing of a block, and the revocation that waited for it.
func (p *proc) left(g *grant) {
	g.landing--
	if g.landing == 0 && g.revoked && p.w.plan.Cluster.Fencing {
		p.revokedSoon(g)
	}
}

// mayLand is the receiver's check before a block's first byte. An agent that does not fence
// lets everything through, so there the checker itself looks whether the block is still the
// receive's.
func (p *proc) mayLand(c *piece) (*grant, error) {
	g := p.grantOf(c.of.epoch)
	if p.w.plan.Cluster.Fencing {
		switch {
		case g == nil:
			return nil, fmt.Errorf("epoch %d is not granted, or no longer", c.of.epoch)
		case g.revoked:
			return nil, fmt.Errorf("epoch %d is revoked", c.of.epoch)
		case g.peer != c.of.sender.life:
			return nil, fmt.Errorf("epoch %d is granted to another life", c.of.epoch)
		case c.group >= 0 && !g.covers(c.group, c.dst):
			return nil, fmt.Errorf("block %d of group %d is outside the grant of epoch %d", c.dst, c.group, c.of.epoch)
		}
	}
	if c.group >= 0 && !p.mem.slot(c.group, c.dst).sole(p.owners[c.of.epoch]) {
		p.w.fail("no touch after release", "%s: epoch %d of %s is written after its release: block %d of group %d",
			p.node.name, c.of.epoch, p.w.id(p.owners[c.of.epoch]), c.dst, c.group)
	}
	return g, nil
}
