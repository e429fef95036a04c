package node

import (
	"hash/crc32"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bytes is our memory behind a descriptor of a rank's pool of a group.
func (l *lists) bytes(rank, group int, d agent.Desc) []byte {
	return l.memory[rank*l.pools.groups+group][d.Offset : d.Offset+d.Length]
}

// sum is the checksum of a rank's share of blocks of ours.
func (l *lists) sum(to *transfer.Mapping, writer int, groups []transfer.GroupCopy) (sum uint32) {
	for _, g := range groups {
		pieces := to.Pieces(writer, g.Group)
		for _, b := range g.Src {
			for _, piece := range pieces {
				d := l.pools.desc(writer, g.Group, b, piece.Src, piece.Len)
				sum = crc32.Update(sum, castagnoli, l.bytes(writer, g.Group, d))
			}
		}
	}
	return sum
}

// verify is the checksum of what a slice brought.
func (l *lists) verify(v engine.Verify) uint32 {
	p := l.peers[v.Peer]
	if p == nil {
		return 0 // the peer is gone, and so is the load
	}
	var sum uint32
	for _, g := range v.Groups {
		pieces := p.in.Pieces(v.Writer, g.Group)
		for _, b := range g.Dst {
			for _, piece := range pieces {
				d := l.pools.desc(piece.DstRank, g.Group, b, piece.Dst, piece.Len)
				sum = crc32.Update(sum, castagnoli, l.bytes(piece.DstRank, g.Group, d))
			}
		}
	}
	return sum
}

// ranges are blocks of ours, on every rank that holds a part of them.
func (l *lists) ranges(blocks [][]kvcache.BlockID) []agent.Desc {
	var out []agent.Desc
	for rank := range l.parallel.Ranks() {
		for g, list := range blocks {
			size := int(l.pools.at(rank, g).BlockBytes)
			if size == 0 {
				continue
			}
			for _, b := range list {
				out = append(out, l.pools.desc(rank, g, b, 0, size))
			}
		}
	}
	return out
}

// copy copies blocks within our pools, on every rank.
func (l *lists) copy(copies []kvcache.BlockCopy) {
	for _, c := range copies {
		for rank := range l.parallel.Ranks() {
			size := uint64(l.pools.at(rank, c.Group).BlockBytes)
			mem := l.memory[rank*l.pools.groups+c.Group]
			from, to := uint64(c.From)*size, uint64(c.To)*size
			copy(mem[to:to+size], mem[from:from+size])
		}
	}
}

// poison overwrites a block whose content nobody can want, so that a stale read shows: as f16,
// as f32 and as a scale of q8_0 the pattern is not a number.
func (l *lists) poison(group int, b kvcache.BlockID) {
	for rank := range l.parallel.Ranks() {
		size := uint64(l.pools.at(rank, group).BlockBytes)
		if size == 0 {
			continue
		}
		block := l.memory[rank*l.pools.groups+group][uint64(b)*size:][:size]
		for i := range block {
			block[i] = 0xff
		}
	}
}
