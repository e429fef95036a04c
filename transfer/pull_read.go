package transfer

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// begin reads what the handle names, or registers for what is announced.
func (p *Pull) begin(now int64, ev PullReady) {
	p.phase, p.peer, p.ready, p.active = pullWaiting, ev.Peer, ev, now
	if p.ready.Ranks == nil {
		p.ready.Ranks = oneToOne(p.cfg.Layout)
	}
	p.ranks = make([]rankState, p.ready.Ranks.Writers())
	p.dst.Start = p.cfg.DstStart
	for g, t := range p.cfg.Tables {
		p.dst.Blocks = append(p.dst.Blocks, p.wanted(g, t))
	}
	switch err := p.reaches(); {
	case err != nil:
		p.giveUp(err)
	case p.cfg.Source == nil:
		p.register()
	default:
		p.readHandle(now)
	}
}

// held is the number of blocks that we have already.
func (p *Pull) held() int {
	if p.cfg.DstStart >= p.cfg.Tokens {
		return p.cfg.Layout.TotalBlocks(p.cfg.Tokens)
	}
	return p.cfg.DstStart / p.cfg.Layout.BlockTokens
}

// wanted are the blocks of a group that are to be read into: none that we hold already, which
// others may share, and none past what is to come.
func (p *Pull) wanted(g int, t kvcache.BlockTable) []kvcache.BlockID {
	if p.cfg.Layout.Groups[g].Recurrent() {
		return t.Blocks
	}
	return kvcache.Project(t.Blocks, t.End(), kvcache.Span{Start: p.held(), End: p.cfg.Layout.TotalBlocks(p.cfg.Tokens)})
}

// reaches reports the first group in which we have no block for what the next token sees: Plan
// reads only as far as a list reaches, and the gap would be decoded.
func (p *Pull) reaches() error {
	l, total := p.cfg.Layout, p.cfg.Layout.TotalBlocks(p.cfg.Tokens)
	for g, group := range l.Groups {
		first := max(kvcache.StaleEnd(p.cfg.Tokens, group.Window, l.BlockTokens), p.held())
		total := total
		if group.Recurrent() {
			first, total = 0, 1
		}
		if have := len(p.dst.Blocks[g]); have < total-first {
			return fmt.Errorf("layer group %d: blocks [%d,%d) are due and we have the last %d of them", g, first, total, have)
		}
	}
	return nil
}

// register posts the one receive of an announced prompt, even when every block is here: the aux
// still has to come.
func (p *Pull) register() {
	reg := &wire.Register{
		Request: p.cfg.Request, Task: p.cfg.Task, Epoch: p.cfg.Epoch, PromptLen: uint32(p.cfg.PromptLen),
		TokenHash: p.cfg.TokenHash, DstStart: uint32(p.cfg.DstStart), Read: true,
	}
	for _, blocks := range p.dst.Blocks {
		ids := make([]int32, len(blocks))
		for i, b := range blocks {
			ids[i] = int32(b)
		}
		reg.Blocks = append(reg.Blocks, ids)
	}
	p.emit(Notify{Peer: p.peer, Msg: reg})
}

// readHandle reads everything as one slice. Where nothing is due the handle is not looked at: the
// holder just hears that we are done (LEASE-21).
func (p *Pull) readHandle(now int64) {
	span := kvcache.Span{End: p.cfg.Layout.TotalBlocks(p.cfg.Tokens)}
	p.phase, p.lastAt = pullReading, now
	p.count, p.known = 1, 1
	p.slices = []pullSlice{{known: true, span: span}}
	if len(Arrived(p.cfg.Layout, p.cfg.Tokens, span, p.dst)) == 0 {
		p.proceed()
		return
	}
	plan, err := p.planHandle(span)
	if err == nil {
		err = p.provable()
	}
	if err != nil {
		p.giveUp(err)
		return
	}
	p.read(now, 0, plan)
	p.proceed()
}

// planHandle checks each field of the handle before any byte is read.
func (p *Pull) planHandle(span kvcache.Span) ([]GroupCopy, error) {
	src, l := p.cfg.Source, p.cfg.Layout
	if len(src.Blocks) != len(l.Groups) {
		return nil, fmt.Errorf("%w: %d block lists for %d layer groups", ErrHandle, len(src.Blocks), len(l.Groups))
	}
	tables := make([]kvcache.BlockTable, len(l.Groups))
	for g, blocks := range src.Blocks {
		switch {
		case l.Groups[g].Recurrent():
			return nil, fmt.Errorf("%w: layer group %d keeps a state, which cannot be read with all but the last token", ErrHandle, g)
		case len(blocks) > src.End:
			return nil, fmt.Errorf("%w: layer group %d: %d blocks end at block %d", ErrHandle, g, len(blocks), src.End)
		}
		tables[g] = kvcache.BlockTable{First: src.End - len(blocks), Blocks: blocks}
	}
	return p.plan(span, tables)
}

// plan says which blocks a slice reads, if they are in the peer's pools.
func (p *Pull) plan(span kvcache.Span, tables []kvcache.BlockTable) ([]GroupCopy, error) {
	for g, t := range tables {
		for _, b := range t.Blocks {
			if g >= len(p.ready.PoolBlocks) || b < 0 || int(b) >= p.ready.PoolBlocks[g] {
				return nil, fmt.Errorf("%w: layer group %d: block %d is not in the peer's pools %v", ErrHandle, g, b, p.ready.PoolBlocks)
			}
		}
	}
	plan, err := Plan(p.cfg.Layout, p.cfg.Tokens, span, tables, p.dst)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHandle, err)
	}
	return plan, nil
}

// read reads slice i from every rank that has a part of it.
func (p *Pull) read(now int64, i int, plan []GroupCopy) {
	sl := &p.slices[i]
	sl.flying = make([]bool, len(p.ranks))
	for w := range p.ranks {
		if n := p.ready.Ranks.Bytes(w, plan); n > 0 {
			sl.flying[w] = true
			sl.open++
			sl.bytes += n
		}
	}
	if sl.open == 0 {
		return
	}
	p.emit(Record{What: SlicePosted, Slice: i, Bytes: sl.bytes})
	for w, flying := range sl.flying {
		if flying {
			p.ranks[w].read = true
			p.open++
			p.spans.begin(now)
			p.emit(Read{Slice: i, Writer: w, Peer: p.peer, Groups: plan})
		}
	}
}

// readDone counts a read. What failed may have been the last thing that held the blocks.
func (p *Pull) readDone(now int64, ev ReadDone) {
	if ev.Slice >= len(p.slices) || ev.Writer >= len(p.slices[ev.Slice].flying) || !p.slices[ev.Slice].flying[ev.Writer] {
		panic("transfer: a read ended twice")
	}
	sl := &p.slices[ev.Slice]
	sl.flying[ev.Writer] = false
	sl.open--
	p.open--
	p.spans.end(now)
	p.active = now
	if ev.Err != nil {
		p.giveUp(fmt.Errorf("slice %d was not read from rank %d: %w", ev.Slice, ev.Writer, ev.Err))
		return
	}
	if p.over() {
		return
	}
	if sl.open == 0 {
		p.emit(Record{What: SliceLanded, Slice: ev.Slice, Bytes: sl.bytes})
	}
	p.proceed()
}

// announced reads a slice as soon as it is told of. A duplicate changes nothing.
func (p *Pull) announced(now int64, m *wire.Announce) {
	if p.phase != pullWaiting && p.phase != pullReading {
		return
	}
	i := int(m.Slice)
	if i < len(p.slices) && p.slices[i].known {
		return
	}
	p.active = now
	plan, err := p.admit(m)
	if err != nil {
		p.giveUp(err)
		return
	}
	p.phase = pullReading
	p.slices[i].known, p.slices[i].span = true, kvcache.Span{Start: int(m.Start), End: int(m.End)}
	p.known++
	if m.Last {
		p.count, p.aux, p.lastAt = i+1, m.Aux, now
	}
	p.read(now, i, plan)
	p.proceed()
}

// admit checks an announcement before anything of it is read, and makes room for its slice.
func (p *Pull) admit(m *wire.Announce) ([]GroupCopy, error) {
	l, i := p.cfg.Layout, int(m.Slice)
	total := l.TotalBlocks(p.cfg.Tokens)
	switch {
	case i > total: // each slice but the last has a block at least
		return nil, fmt.Errorf("%w: slice %d of a prompt that has at most %d", ErrProtocol, i, total+1)
	case p.count >= 0 && i >= p.count, m.Last && len(p.slices) > i+1:
		return nil, fmt.Errorf("%w: slice %d is not the last one", ErrProtocol, i)
	case m.Start > m.End || int(m.End) > total:
		return nil, fmt.Errorf("%w: slice %d has blocks [%d,%d) of %d", ErrProtocol, i, m.Start, m.End, total)
	case m.Last && m.Aux == nil:
		return nil, fmt.Errorf("%w: the last announcement has no aux", ErrProtocol)
	case len(m.Blocks) != len(l.Groups):
		return nil, fmt.Errorf("%w: %d block lists for %d layer groups", ErrHandle, len(m.Blocks), len(l.Groups))
	}
	if err := p.proof(m); err != nil {
		return nil, err
	}
	span := kvcache.Span{Start: int(m.Start), End: int(m.End)}
	tables := make([]kvcache.BlockTable, len(l.Groups))
	for g, list := range m.Blocks {
		due := p.dst.due(l, p.cfg.Tokens, g, span)
		if len(list) != due.Len() {
			return nil, fmt.Errorf("%w: layer group %d: %d blocks are announced and %d due", ErrHandle, g, len(list), due.Len())
		}
		tables[g].First = due.Start
		for _, b := range list {
			tables[g].Blocks = append(tables[g].Blocks, kvcache.BlockID(b))
		}
	}
	plan, err := p.plan(span, tables)
	for err == nil && len(p.slices) <= i {
		p.slices = append(p.slices, pullSlice{})
	}
	return plan, err
}

// proof takes slot and nonce from the first announcement. Blocks that are announced stay, so no
// other brings another.
func (p *Pull) proof(m *wire.Announce) error {
	if p.known == 0 {
		if p.cfg.Lease.Nonce != 0 && p.cfg.Lease.Nonce != m.Nonce {
			return fmt.Errorf("%w: the announcement is of another nonce than the lease", ErrHandle)
		}
		p.slot, p.nonce = int(m.Slot), m.Nonce
		return p.provable()
	}
	if int(m.Slot) != p.slot || m.Nonce != p.nonce {
		return fmt.Errorf("%w: slot and nonce of slice %d are not those of the first", ErrProtocol, m.Slice)
	}
	return nil
}
