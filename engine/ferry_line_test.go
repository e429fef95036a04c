package engine_test

import (
	"errors"
	"hash/crc32"
	"slices"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// line is what is under way between the two engines, and what the decode engine granted.
type line struct {
	asked     int // connections
	connected bool
	toP       []wire.Message // in order
	toD       []wire.Message // in no order
	flights   []*flight
	acks      []*flight // copies that landed and whose sender does not know yet
	revoking  []uint64
	verifying []engine.Verify
	grants    []transfer.Grant
	epochs    map[uint64]*epoch
}

// epoch is one receive, as the oracle sees it.
type epoch struct {
	r       *request
	grant   transfer.Grant
	cached  int                  // prompt tokens that D had
	tables  []kvcache.BlockTable // D's
	revoked bool
	// lasts and bytes are what the writers told: how many last slices each, and in all.
	lasts []int
	bytes uint64
}

// flight is a copy on its way: blocks, or layers of them, each by the pieces of the mapping.
type flight struct {
	copy   engine.Copy
	blocks []pair // not written yet
	epoch  *epoch
}

type pair struct {
	group    int
	src, dst kvcache.BlockID
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (w *world) connect() {
	w.asked--
	if !w.connected {
		w.connected = true
		w.p.step(engine.PeerUp{Peer: w.d.life, PoolBlocks: w.d.side.blocks, Parallel: w.d.side.parallel})
	}
	w.d.step(engine.PeerUp{Addr: "P", Peer: w.p.life, PoolBlocks: w.p.side.blocks, Parallel: w.p.side.parallel})
}

func (w *world) notify(from *host, m wire.Message) {
	if from == w.p {
		w.toD = append(w.toD, m)
		return
	}
	if m, ok := m.(*wire.Register); ok {
		w.registers(m)
	}
	w.toP = append(w.toP, m)
}

func (w *world) deliverToP() {
	m := w.toP[0]
	w.toP = w.toP[1:]
	w.p.step(engine.Message{Peer: w.d.life, Msg: m})
}

func (w *world) deliverToD(i int) {
	m := w.toD[i]
	w.toD = slices.Delete(w.toD, i, i+1)
	if m, ok := m.(*wire.Result); ok {
		w.trace("D: result of %s: slice %d by %d, last %v, %s", m.Request, m.Slice, m.Writer, m.Last, m.Status)
		if e := w.epochs[m.Epoch]; m.Status == wire.StatusOK {
			e.bytes += m.Bytes
			if m.Last {
				e.lasts[m.Writer]++
			}
		}
	}
	w.d.step(engine.Message{Peer: w.p.life, Msg: m})
}

// granted remembers what D opened until the registration tells for whom.
func (w *world) granted(g transfer.Grant) { w.grants = append(w.grants, g) }

// registers notes what the decode engine will have to have in its blocks. What it registers
// ends with the prompt's last block, never one that is reserved for what is decoded.
func (w *world) registers(m *wire.Register) {
	if _, again := w.epochs[m.Epoch]; again || len(w.grants) != 1 || w.grants[0].Epoch != m.Epoch {
		failf("%s registers under epoch %d, with the grants %v", m.Request, m.Epoch, w.grants)
	}
	e := &epoch{r: w.reqs[m.Request], grant: w.grants[0], cached: int(m.DstStart), lasts: make([]int, w.c.p.parallel.Ranks())}
	w.grants = nil
	w.epochs[m.Epoch] = e
	for _, held := range w.d.e.Held() {
		if held.Request == m.Request {
			e.tables = slices.Clone(held.Tables)
		}
	}
	for g, list := range m.Blocks {
		total := w.blocksOf(e.r, g)
		for k, id := range list {
			if e.tables[g].Block(total-len(list)+k) != kvcache.BlockID(id) || e.grant.Blocks[g][k] != kvcache.BlockID(id) {
				failf("%s registers %v of group %d, and holds %v", m.Request, list, g, e.tables[g])
			}
		}
	}
	w.sawRegister(e)
}

// blocksOf is how many blocks of a group a prompt fills.
func (w *world) blocksOf(r *request, g int) int {
	if w.c.layout.Groups[g].Recurrent() {
		return 1
	}
	return (r.prompt() + w.c.layout.BlockTokens - 1) / w.c.layout.BlockTokens
}

// due says whether a logical block must arrive: its tokens reach into what the first decoded
// token sees, and D does not have them. A state must always.
func (w *world) due(e *epoch, g, logical int) bool {
	group, tpb, prompt := w.c.layout.Groups[g], w.c.layout.BlockTokens, e.r.prompt()
	switch {
	case logical >= w.blocksOf(e.r, g):
		return false
	case group.Recurrent():
		return true
	case e.cached == prompt || (logical+1)*tpb <= e.cached:
		return false
	}
	return group.Window == 0 || (logical+1)*tpb > prompt+1-group.Window
}

// logical is which of D's blocks of a receive a physical one is.
func (e *epoch) logical(g int, b kvcache.BlockID) int {
	i := slices.Index(e.tables[g].Blocks, b)
	if i < 0 {
		failf("%s: block %d of group %d is not among its own", e.r.id, b, g)
	}
	return e.tables[g].First + i
}

// copyBegins puts a copy on its way. Some are read at once, and some when they are written:
// either must do.
func (w *world) copyBegins(o engine.Copy) {
	f := &flight{copy: o, epoch: w.epochs[o.Epoch]}
	for _, g := range o.Groups {
		if w.c.layout.Groups[g.Group].Recurrent() && !f.last() {
			failf("%s: the state of group %d leaves with slice %d, which is not the last", f.epoch.r.id, g.Group, o.Slice)
		}
		for i := range g.Src {
			f.blocks = append(f.blocks, pair{g.Group, g.Src[i], g.Dst[i]})
		}
	}
	w.trace("P: copy %d of %s: slice %d by %d of layers %v of %v, last %v", o.ID, f.epoch.r.id, o.Slice, o.Writer, o.Layers, f.blocks, f.last())
	if o.Checksum {
		var sum uint32
		for _, b := range f.blocks {
			for _, p := range w.in.Pieces(o.Writer, b.group) {
				sum = crc32.Update(sum, castagnoli, w.p.memory.ranks[o.Writer].block(b.group, b.src)[p.Src:][:p.Len])
			}
		}
		o.Notice.Checksum = sum
	}
	for _, x := range w.under() {
		if o.Notice != nil && x.copy.Epoch == o.Epoch && x.copy.Slice == o.Slice && x.copy.Writer == o.Writer {
			failf("%s: the result of slice %d by %d leaves with a part of it in flight", f.epoch.r.id, o.Slice, o.Writer)
		}
	}
	w.sawCopy(f)
	w.flights = append(w.flights, f)
	if coin(w.rng) && !f.epoch.revoked {
		w.write(f, len(f.blocks))
	}
}

// land writes some of a copy's blocks, or ends it. A receiver that fences refuses what it has
// revoked.
func (w *world) land(f *flight) {
	if f.epoch.revoked && w.c.fencing {
		w.saw(writeRefused)
		w.remove(f)
		w.p.step(engine.CopyDone{ID: f.copy.ID, Err: errors.New("revoked")})
		return
	}
	if len(f.blocks) > 0 {
		w.write(f, w.rng.IntN(4))
	}
	if len(f.blocks) > 0 {
		return
	}
	w.remove(f)
	if f.copy.Notice != nil {
		w.toD = append(w.toD, f.copy.Notice)
	}
	w.acks = append(w.acks, f)
}

// under are the copies on their way, as far as the sender knows.
func (w *world) under() []*flight { return slices.Concat(w.flights, w.acks) }

func (w *world) partUnder(request string) bool {
	return slices.ContainsFunc(w.under(), func(f *flight) bool { return f.epoch.r.id == request && f.copy.Notice == nil })
}

// last reports whether the copy ends its request's transfer.
func (f *flight) last() bool { return f.copy.Notice != nil && f.copy.Notice.Last }

func (w *world) remove(f *flight) {
	w.flights = slices.DeleteFunc(w.flights, func(x *flight) bool { return x == f })
}

func (w *world) inFlight(r *request) bool {
	return slices.ContainsFunc(w.flights, func(f *flight) bool { return f.epoch.r == r && len(f.blocks) > 0 })
}

// write writes the next blocks of a copy, all of which both sides must hold.
func (w *world) write(f *flight, n int) {
	w.p.holds(f, func(b pair) kvcache.BlockID { return b.src })
	w.d.holds(f, func(b pair) kvcache.BlockID { return b.dst })
	for range min(n, len(f.blocks)) {
		w.writeNext(f)
	}
}

// writeNext writes a copy's next block: what is granted and due, and each byte once under an
// epoch.
func (w *world) writeNext(f *flight) {
	b, e := f.blocks[0], f.epoch
	f.blocks = f.blocks[1:]
	if !slices.Contains(e.grant.Blocks[b.group], b.dst) || !w.due(e, b.group, e.logical(b.group, b.dst)) {
		failf("%s: block %d of group %d is written, which is not granted and due", e.r.id, b.dst, b.group)
	}
	w.d.memory.used[b.group][b.dst] = true
	src := w.p.memory.ranks[f.copy.Writer].block(b.group, b.src)
	for _, p := range w.in.Part(f.copy.Writer, b.group, f.copy.Layers) {
		rank := &w.d.memory.ranks[p.DstRank]
		copy(rank.block(b.group, b.dst)[p.Dst:][:p.Len], src[p.Src:][:p.Len])
		at := (int(b.dst)*rank.size[b.group] + p.Dst) / tagBytes
		for i := range p.Len / tagBytes {
			if rank.stamps[b.group][at+i] == uint32(f.copy.Epoch) {
				failf("%s: byte %d of block %d of group %d on rank %d is written twice", e.r.id, p.Dst+i*tagBytes, b.dst, b.group, p.DstRank)
			}
			rank.stamps[b.group][at+i] = uint32(f.copy.Epoch)
		}
	}
}

// holds fails unless the blocks of a copy are its request's.
func (h *host) holds(f *flight, side func(pair) kvcache.BlockID) {
	var tables []kvcache.BlockTable
	for _, held := range h.e.Held() {
		if held.Request == f.epoch.r.id {
			tables = held.Tables
		}
	}
	for _, b := range f.blocks {
		if tables == nil || !slices.Contains(tables[b.group].Blocks, side(b)) {
			failf("%s: block %d of group %d is in use by a copy of %s, which does not hold it", h.name, side(b), b.group, f.epoch.r.id)
		}
	}
}

func (w *world) verified(i int) {
	v := w.verifying[i]
	w.verifying = slices.Delete(w.verifying, i, i+1)
	var sum uint32
	for _, g := range v.Groups {
		for _, b := range g.Dst {
			for _, p := range w.in.Pieces(v.Writer, g.Group) {
				sum = crc32.Update(sum, castagnoli, w.d.memory.ranks[p.DstRank].block(g.Group, b)[p.Dst:][:p.Len])
			}
		}
	}
	w.saw(sliceVerified)
	w.d.step(engine.Verified{Epoch: v.Epoch, Slice: v.Slice, Writer: v.Writer, Sum: sum})
}

// revoked closes an epoch. If that is because everything is there, everything must be.
func (w *world) revoked(i int) {
	number := w.revoking[i]
	w.revoking = slices.Delete(w.revoking, i, i+1)
	e := w.epochs[number]
	e.revoked = true
	for _, held := range w.d.e.Held() {
		if held.Request == e.r.id && held.Receive.Phase() == "closing" {
			w.whole(number, e, held)
		}
	}
	w.d.step(engine.EpochRevoked{Epoch: number})
}

// whole checks a receive that is complete: what the first decoded token sees is right to the
// last byte on every rank, whoever computed it; what was due was written under this epoch, by
// writers of whom each sent one last slice; nothing else of the request's blocks was touched.
func (w *world) whole(number uint64, e *epoch, held engine.Held) {
	w.d.visible(e.r, held.Tables, e.r.prompt(), held.Copies)
	bytes := uint64(0)
	for g := range w.c.layout.Groups {
		for i, b := range held.Tables[g].Blocks {
			logical := held.Tables[g].First + i
			switch {
			case w.due(e, g, logical):
				bytes += w.arrived(number, e, g, b)
			case logical >= w.blocksOf(e.r, g) && w.d.memory.used[g][b]:
				failf("%s: block %d of group %d is reserved for the answer, and was written", e.r.id, b, g)
			}
		}
	}
	if bytes != e.bytes {
		failf("%s: %d bytes were due and the writers told of %d", e.r.id, bytes, e.bytes)
	}
	for writer, n := range e.lasts {
		if n != 1 {
			failf("%s: rank %d sent %d last slices", e.r.id, writer, n)
		}
	}
}

// arrived checks that all of a block was written under an epoch, and gives its size.
func (w *world) arrived(number uint64, e *epoch, g int, b kvcache.BlockID) (bytes uint64) {
	for i := range w.d.memory.ranks {
		rank := &w.d.memory.ranks[i]
		words := rank.size[g] / tagBytes
		for at, stamp := range rank.stamps[g][int(b)*words:][:words] {
			if stamp != uint32(number) {
				failf("%s: byte %d of block %d of group %d on rank %d did not arrive", e.r.id, at*tagBytes, b, g, i)
			}
		}
		bytes += uint64(rank.size[g])
	}
	return bytes
}
