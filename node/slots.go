package node

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/engine"
	"kvferry/wire"
)

// slotBytes is the size of a lease slot: an int64 in the machine's order, as in the peer's.
const slotBytes = 8

// maxCells is how many slots of others can be on their way at a time.
const maxCells = 4096

// slots is the memory of lease slots (LEASE-13): ours, one array a rank, and the cells into which
// those of others are read.
type slots struct {
	ranks, count int
	own, cells   *memory.Memory
	ownRegion    agent.Region
	cellList     agent.List
	free         []int32
	waiting      []engine.ReadSlots
	asked        map[uint64][]int32 // the cells of a READ that is out
}

func newSlots(ranks, count int) (*slots, error) {
	s := &slots{ranks: ranks, count: count, asked: map[uint64][]int32{}}
	var err error
	if count > 0 {
		if s.own, err = memory.Map("kvferry-lease-slots", ranks*count*slotBytes); err != nil {
			return s, fmt.Errorf("lease slots: %w", err)
		}
	}
	if s.cells, err = memory.Map("kvferry-lease-cells", maxCells*slotBytes); err != nil {
		return s, fmt.Errorf("lease cells: %w", err)
	}
	for i := range maxCells {
		s.free = append(s.free, int32(i))
	}
	return s, nil
}

// register makes the memory known to the agent.
func (s *slots) register(a agent.Agent) error {
	cells, err := a.Register(s.cells.Bytes())
	if err != nil {
		return err
	}
	for i := range maxCells {
		s.cellList = append(s.cellList, agent.Desc{Region: cells, Offset: uint64(i) * slotBytes, Length: slotBytes})
	}
	if s.count > 0 {
		s.ownRegion, err = a.Register(s.own.Bytes())
	}
	return err
}

func (s *slots) close() {
	for _, m := range []*memory.Memory{s.own, s.cells} {
		if m != nil {
			m.Close()
		}
	}
}

// describe is what peers must know to read our slots.
func (s *slots) describe(duration int64) wire.Slots {
	return wire.Slots{Region: uint32(s.ownRegion), Count: uint32(s.count), Duration: duration}
}

// set stores a nonce, or 0, on every rank. A peer may be reading it.
func (s *slots) set(slot int, nonce uint64) {
	for rank := range s.ranks {
		atomic.StoreInt64(word(s.own.Bytes(), rank*s.count+slot), int64(nonce))
	}
}

func word(mem []byte, i int) *int64 { return (*int64)(unsafe.Pointer(&mem[i*slotBytes])) }

// slotRead tells a READ of slots from those of blocks, whose numbers the machine counts too.
const slotRead = 1 << 63

// next is the READ that is to go out now, if one waits and there are cells for it.
func (s *slots) next(l *lists) (agent.Transfer, bool) {
	if len(s.waiting) == 0 || len(s.waiting[0].Slots) > len(s.free) {
		return agent.Transfer{}, false
	}
	r := s.waiting[0]
	s.waiting = s.waiting[1:]
	n := len(s.free) - len(r.Slots)
	cells := append([]int32(nil), s.free[n:]...)
	s.free = s.free[:n]
	s.asked[r.ID] = cells
	t := agent.Transfer{ID: r.ID | slotRead, Peer: r.Peer, Local: s.cellList, LocalIdx: cells}
	t.Remote = l.slotsOf(r.Peer, r.Writer)
	for _, slot := range r.Slots {
		t.RemoteIdx = append(t.RemoteIdx, int32(slot))
	}
	return t, true
}

// done is what a READ of slots brought.
func (s *slots) done(id uint64, err error) engine.SlotsRead {
	id &^= slotRead
	out := engine.SlotsRead{ID: id, Err: err}
	cells := s.asked[id]
	delete(s.asked, id)
	for _, c := range cells {
		out.Values = append(out.Values, atomic.LoadInt64(word(s.cells.Bytes(), int(c))))
	}
	s.free = append(s.free, cells...)
	return out
}

// slotsOf lists the slots of a peer's rank, or nothing if the peer is gone.
func (l *lists) slotsOf(peer wire.Life, rank int) agent.List {
	p := l.peers[peer]
	if p == nil {
		return nil
	}
	if p.slots[rank] == nil {
		for i := range p.theirSlots.Count {
			at := uint64(rank)*uint64(p.theirSlots.Count) + uint64(i)
			p.slots[rank] = append(p.slots[rank], agent.Desc{
				Region: agent.Region(p.theirSlots.Region), Offset: at * slotBytes, Length: slotBytes,
			})
		}
	}
	return p.slots[rank]
}

// read turns what a peer's rank has of blocks into indices of two lists, made when they are
// first needed.
func (l *lists) read(r engine.Read) agent.Transfer {
	t := agent.Transfer{ID: r.ID, Peer: r.Peer}
	p := l.peers[r.Peer]
	if p == nil {
		return t // the peer is gone, and the agent will say so
	}
	if p.reads[r.Writer] == nil {
		p.reads[r.Writer] = l.list(p.in, r.Writer, p.theirs, p.theirBlocks, l.pools, l.blocks())
	}
	from := p.reads[r.Writer]
	t.Local, t.Remote = from.dst, from.src
	for _, g := range r.Groups {
		n := from.pieces[g.Group]
		for i := range g.Src {
			for k := range n {
				t.RemoteIdx = append(t.RemoteIdx, from.srcFirst[g.Group]+int32(g.Src[i])*n+k)
				t.LocalIdx = append(t.LocalIdx, from.dstFirst[g.Group]+int32(g.Dst[i])*n+k)
			}
		}
	}
	return t
}

// blocks is the size of our pools, by layer group.
func (l *lists) blocks() []int {
	out := make([]int, l.pools.groups)
	for i, p := range l.pools.pools {
		out[i%l.pools.groups] = max(out[i%l.pools.groups], int(p.Blocks))
	}
	return out
}

// bytesOf is how much a read brings.
func bytesOf(t agent.Transfer) (n uint64) {
	for _, i := range t.LocalIdx {
		n += t.Local[i].Length
	}
	return n
}
