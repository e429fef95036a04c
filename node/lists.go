package node

import (
	"fmt"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/wire"
)

// lists holds the descriptor lists of our pools and of each peer's: one descriptor a block,
// group after group, prepared once and indexed by every transfer.
type lists struct {
	local []wire.Pool
	ours  blockList
	peers map[wire.Life]blockList
}

// blockList is a descriptor list and where each layer group begins in it.
type blockList struct {
	descs agent.List
	first []int32
}

func newLists(pools []wire.Pool) *lists {
	return &lists{local: pools, ours: listBlocks(pools), peers: map[wire.Life]blockList{}}
}

func listBlocks(pools []wire.Pool) blockList {
	var l blockList
	for _, p := range pools {
		l.first = append(l.first, int32(len(l.descs)))
		for b := range uint64(p.Blocks) {
			l.descs = append(l.descs, agent.Desc{
				Region: agent.Region(p.Region), Offset: b * p.BlockBytes, Length: p.BlockBytes,
			})
		}
	}
	return l
}

// maxPoolBlocks bounds what a peer can make us list.
const maxPoolBlocks = 1 << 24

// peerUp prepares a peer's list and gives the sizes of its pools. The geometry must be one
// that the plan can map onto ours.
func (l *lists) peerUp(h wire.Hello) ([]int, error) {
	g := h.Geometry
	if g.TensorParallel != 1 || g.PipelineParallel != 1 {
		return nil, fmt.Errorf("geometry: tensor parallel %d, pipeline parallel %d: only 1 and 1 can be mapped",
			g.TensorParallel, g.PipelineParallel)
	}
	if len(g.Pools) != len(l.local) {
		return nil, fmt.Errorf("geometry: %d pools there and %d here", len(g.Pools), len(l.local))
	}
	var blocks []int
	for i, p := range g.Pools {
		if p.BlockBytes != l.local[i].BlockBytes {
			return nil, fmt.Errorf("geometry: pool %d: block bytes %d there and %d here", i, p.BlockBytes, l.local[i].BlockBytes)
		}
		if p.Blocks > maxPoolBlocks {
			return nil, fmt.Errorf("geometry: pool %d: %d blocks: at most %d can be listed", i, p.Blocks, maxPoolBlocks)
		}
		blocks = append(blocks, int(p.Blocks))
	}
	l.peers[h.Life] = listBlocks(g.Pools)
	return blocks, nil
}

func (l *lists) peerLost(life wire.Life) { delete(l.peers, life) }

// transfer turns a slice's plan into indices of the two lists.
func (l *lists) transfer(c engine.Copy) agent.Transfer {
	remote := l.peers[c.Peer]
	t := agent.Transfer{
		ID: c.ID, Peer: c.Peer, Local: l.ours.descs, Remote: remote.descs,
		Epoch: c.Epoch, Notice: c.Notice.Append(nil),
	}
	if remote.descs == nil {
		return t // the peer is gone, and the agent will say so
	}
	for _, g := range c.Groups {
		for i := range g.Src {
			t.LocalIdx = append(t.LocalIdx, l.ours.first[g.Group]+int32(g.Src[i]))
			t.RemoteIdx = append(t.RemoteIdx, remote.first[g.Group]+int32(g.Dst[i]))
		}
	}
	return t
}

// ranges are the descriptors of blocks of ours.
func (l *lists) ranges(blocks [][]kvcache.BlockID) []agent.Desc {
	var out []agent.Desc
	for g, list := range blocks {
		for _, b := range list {
			out = append(out, l.ours.descs[l.ours.first[g]+int32(b)])
		}
	}
	return out
}
