package node

import (
	"fmt"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// lists knows where our blocks lie, and holds for each peer the descriptor lists of what we
// write into it: prepared once, indexed by every transfer.
type lists struct {
	layout   kvcache.Layout
	parallel kvcache.Parallel
	pools    ranks
	memory   [][]byte // by rank and group, as pools
	peers    map[wire.Life]*peerLists
}

// ranks are the pools of all ranks, layer group after layer group of one rank after another.
type ranks struct {
	pools  []wire.Pool
	groups int
}

func (r ranks) at(rank, group int) wire.Pool { return r.pools[rank*r.groups+group] }

func (p ranks) desc(rank, group int, block kvcache.BlockID, offset, length int) agent.Desc {
	pool := p.at(rank, group)
	return agent.Desc{
		Region: agent.Region(pool.Region),
		Offset: uint64(block)*pool.BlockBytes + uint64(offset),
		Length: uint64(length),
	}
}

// peerLists is what one peer's geometry makes of ours.
type peerLists struct {
	to          *transfer.Mapping
	out         []*rankLists // what each rank of ours writes into it
	in          *transfer.Mapping
	reads       []*rankLists // what each rank of it can be read into ours
	theirs      ranks
	theirBlocks []int
	theirSlots  wire.Slots
	slots       []agent.List // of each rank of it
}

// rankLists are a rank's descriptors and those of the other side beside them: of each group the
// pieces of each block, from first on.
type rankLists struct {
	src, dst           agent.List
	srcFirst, dstFirst []int32
	pieces             []int32
}

func newLists(l kvcache.Layout, p kvcache.Parallel, pools []wire.Pool, memory [][]byte) *lists {
	return &lists{
		layout: l, parallel: p, pools: ranks{pools, len(l.Groups)}, memory: memory,
		peers: map[wire.Life]*peerLists{},
	}
}

// maxPoolBlocks bounds what a peer can make us list.
const maxPoolBlocks = 1 << 24

// peerUp prepares a peer's lists and gives its geometry. It must be one that the mapping can
// map onto ours.
func (l *lists) peerUp(h wire.Hello) (kvcache.Parallel, []int, error) {
	theirs := kvcache.Parallel{Tensor: int(h.Geometry.TensorParallel), Pipeline: int(h.Geometry.PipelineParallel)}
	blocks, err := l.check(theirs, h.Geometry.Pools)
	if err != nil {
		return theirs, nil, fmt.Errorf("geometry: %w", err)
	}
	out, err := transfer.NewMapping(l.layout, l.parallel, theirs)
	if err != nil {
		return theirs, nil, fmt.Errorf("geometry: %w", err)
	}
	in, err := transfer.NewMapping(l.layout, theirs, l.parallel)
	if err != nil {
		return theirs, nil, fmt.Errorf("geometry: %w", err)
	}
	if h.Slots.Count > maxPoolBlocks {
		return theirs, nil, fmt.Errorf("geometry: %d lease slots", h.Slots.Count)
	}
	p := &peerLists{
		to: out, in: in, reads: make([]*rankLists, in.Writers()), slots: make([]agent.List, in.Writers()),
		theirs: ranks{h.Geometry.Pools, len(l.layout.Groups)}, theirBlocks: blocks, theirSlots: h.Slots,
	}
	for w := range out.Writers() {
		p.out = append(p.out, l.list(out, w, l.pools, l.blocks(), p.theirs, blocks))
	}
	l.peers[h.Life] = p
	return theirs, blocks, nil
}

// check compares a peer's pools with what its geometry makes of our layout, and gives the
// number of blocks of each group.
func (l *lists) check(theirs kvcache.Parallel, pools []wire.Pool) ([]int, error) {
	shards, err := l.layout.Shards(theirs)
	if err != nil {
		return nil, err
	}
	groups := len(l.layout.Groups)
	if len(pools) != len(shards)*groups {
		return nil, fmt.Errorf("%d pools for %d ranks of %d layer groups", len(pools), len(shards), groups)
	}
	blocks := make([]int, groups)
	for i, p := range pools {
		rank, g := i/groups, i%groups
		want := shards[rank].BlockBytes(g)
		if int(p.BlockBytes) != want {
			return nil, fmt.Errorf("rank %d, layer group %d: block bytes are %d and should be %d", rank, g, p.BlockBytes, want)
		}
		if want == 0 {
			continue
		}
		if blocks[g] == 0 {
			blocks[g] = int(p.Blocks)
		}
		if int(p.Blocks) != blocks[g] || p.Blocks > maxPoolBlocks {
			return nil, fmt.Errorf("rank %d, layer group %d: %d blocks", rank, g, p.Blocks)
		}
	}
	return blocks, nil
}

// list makes the descriptors of what rank writer of one side has for the other.
func (l *lists) list(m *transfer.Mapping, writer int, from ranks, fromBlocks []int, to ranks, toBlocks []int) *rankLists {
	r := &rankLists{}
	for g := range l.layout.Groups {
		pieces := m.Pieces(writer, g)
		r.pieces = append(r.pieces, int32(len(pieces)))
		r.srcFirst = append(r.srcFirst, int32(len(r.src)))
		r.dstFirst = append(r.dstFirst, int32(len(r.dst)))
		if len(pieces) == 0 {
			continue
		}
		for b := range fromBlocks[g] {
			for _, p := range pieces {
				r.src = append(r.src, from.desc(writer, g, kvcache.BlockID(b), p.Src, p.Len))
			}
		}
		for b := range toBlocks[g] {
			for _, p := range pieces {
				r.dst = append(r.dst, to.desc(p.DstRank, g, kvcache.BlockID(b), p.Dst, p.Len))
			}
		}
	}
	return r
}

func (l *lists) peerLost(life wire.Life) { delete(l.peers, life) }

// transfer turns a copy into indices of the two lists, or, where some layers leave apart from
// the others, into lists of its own: those of each layer of each block would be long to keep. The
// checksum that the receiver asked for is taken here, of the parts that have left before too.
func (l *lists) transfer(c engine.Copy) agent.Transfer {
	t := agent.Transfer{ID: c.ID, Peer: c.Peer, Epoch: c.Epoch}
	p := l.peers[c.Peer]
	switch {
	case p == nil:
		return t // the peer is gone, and the agent will say so
	case c.Notice != nil && c.Layers.Start == 0:
		t.Local, t.Remote = p.out[c.Writer].src, p.out[c.Writer].dst
		t.LocalIdx, t.RemoteIdx = p.out[c.Writer].indices(c.Groups)
	default:
		l.part(&t, p, c)
	}
	if c.Notice == nil {
		return t
	}
	if c.Checksum {
		c.Notice.Checksum = l.sum(p.to, c.Writer, c.Groups)
	}
	t.Notice = c.Notice.Append(nil)
	return t
}

// indices are where in the lists whole blocks are.
func (r *rankLists) indices(groups []transfer.GroupCopy) (src, dst []int32) {
	for _, g := range groups {
		n := r.pieces[g.Group]
		for i := range g.Src {
			for k := range n {
				src = append(src, r.srcFirst[g.Group]+int32(g.Src[i])*n+k)
				dst = append(dst, r.dstFirst[g.Group]+int32(g.Dst[i])*n+k)
			}
		}
	}
	return src, dst
}

// part makes the lists of some layers of blocks.
func (l *lists) part(t *agent.Transfer, p *peerLists, c engine.Copy) {
	for _, g := range c.Groups {
		pieces := p.to.Part(c.Writer, g.Group, c.Layers)
		for i := range g.Src {
			for _, piece := range pieces {
				t.LocalIdx = append(t.LocalIdx, int32(len(t.Local)))
				t.Local = append(t.Local, l.pools.desc(c.Writer, g.Group, g.Src[i], piece.Src, piece.Len))
				t.Remote = append(t.Remote, p.theirs.desc(piece.DstRank, g.Group, g.Dst[i], piece.Dst, piece.Len))
			}
		}
	}
	t.RemoteIdx = t.LocalIdx
}
