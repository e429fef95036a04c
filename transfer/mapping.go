package transfer

import "kvferry/kvcache"

// Piece is a contiguous part of a block that one rank writes into one rank of the receiver.
// Src and Dst are offsets within a block of either's, in bytes.
type Piece struct {
	DstRank       int
	Src, Dst, Len int
}

// Mapping says which bytes of a block go where when the sender is cut into ranks in one way
// and the receiver in another. It follows from the two geometries alone, so both sides know it
// without a word. Of ranks that hold the same head one is elected to write it.
type Mapping struct {
	// pieces[writer][group], those of a layer joined; whole likewise, and joined across layers.
	pieces [][][]layerPiece
	whole  [][][]Piece
}

// layerPiece is a piece of one layer of the model; a recurrent group's has none, below 0.
type layerPiece struct {
	layer int
	Piece
}

// NewMapping maps the sender's geometry onto the receiver's. Equal geometries give one piece
// a block, the whole of it.
func NewMapping(l kvcache.Layout, sender, receiver kvcache.Parallel) (*Mapping, error) {
	from, err := l.Shards(sender)
	if err != nil {
		return nil, err
	}
	to, err := l.Shards(receiver)
	if err != nil {
		return nil, err
	}
	m := &Mapping{pieces: make([][][]layerPiece, len(from)), whole: make([][][]Piece, len(from))}
	for w := range m.pieces {
		m.pieces[w] = make([][]layerPiece, len(l.Groups))
	}
	for d, dst := range to {
		for g := range l.Groups {
			m.fill(l, from, d, dst, g)
		}
	}
	all := kvcache.Span{End: layersOf(l)}
	for w := range m.pieces {
		for g := range l.Groups {
			m.whole[w] = append(m.whole[w], m.Part(w, g, all))
		}
	}
	return m, nil
}

// oneToOne is the mapping of one rank onto one.
func oneToOne(l kvcache.Layout) *Mapping {
	one := kvcache.Parallel{Tensor: 1, Pipeline: 1}
	m, err := NewMapping(l, one, one)
	if err != nil {
		panic(err) // one rank holds any layout
	}
	return m
}

// fill finds a writer for each head of each layer of one group that a receiver's rank holds, in
// the order of the receiver's memory.
func (m *Mapping) fill(l kvcache.Layout, from []kvcache.Shard, d int, dst kvcache.Shard, g int) {
	for layer := dst.Layers[g].Start; layer < dst.Layers[g].End; layer++ {
		if size := l.Groups[g].StateBytes; size > 0 {
			w := elect(from, d, func(s kvcache.Shard) bool { return s.HoldsLayer(g, layer) })
			m.add(w, g, layerPiece{-1, Piece{DstRank: d, Src: from[w].StateOffset(g, layer), Dst: dst.StateOffset(g, layer), Len: size}})
			continue
		}
		for kv := range 2 {
			for head := dst.Heads.Start; head < dst.Heads.End; head++ {
				w := elect(from, d, func(s kvcache.Shard) bool { return s.Holds(g, layer, head) })
				m.add(w, g, layerPiece{l.Groups[g].Layers[layer], Piece{
					DstRank: d,
					Src:     from[w].HeadOffset(g, layer, kv, head),
					Dst:     dst.HeadOffset(g, layer, kv, head),
					Len:     l.HeadBytes(),
				}})
			}
		}
	}
}

// elect is the rank that writes something to the receiver's rank d: of those that hold it,
// another one for each d, so that they share the work. Where both sides are cut alike, it is the
// one of the same number: the holders follow each other, from a multiple of their number on.
func elect(from []kvcache.Shard, d int, holds func(kvcache.Shard) bool) int {
	var holders []int
	for w, s := range from {
		if holds(s) {
			holders = append(holders, w)
		}
	}
	return holders[d%len(holders)]
}

// add appends a piece, or lengthens the last one of the same layer where both sides go on.
func (m *Mapping) add(w, g int, p layerPiece) {
	list := m.pieces[w][g]
	if n := len(list); n > 0 && list[n-1].layer == p.layer && list[n-1].join(p.Piece) {
		return
	}
	m.pieces[w][g] = append(list, p)
}

// join lengthens a piece by one that follows it on both sides, if it does.
func (p *Piece) join(next Piece) bool {
	if p.DstRank != next.DstRank || p.Src+p.Len != next.Src || p.Dst+p.Len != next.Dst {
		return false
	}
	p.Len += next.Len
	return true
}

// layersOf is the number of the model's layers.
func layersOf(l kvcache.Layout) int {
	n := 0
	for _, g := range l.Groups {
		n += len(g.Layers)
	}
	return n
}

// Writers is the number of sending ranks. Each sends at least its last slice.
func (m *Mapping) Writers() int { return len(m.pieces) }

// Pieces are the parts of each block of group g that a writer writes.
func (m *Mapping) Pieces(writer, g int) []Piece { return m.whole[writer][g] }

// Part is what of Pieces belongs to some of the model's layers, which in a block of any rank lie
// beside each other. A recurrent group's states are not told apart: they are in every part.
func (m *Mapping) Part(writer, g int, layers kvcache.Span) []Piece {
	var out []Piece
	for _, p := range m.pieces[writer][g] {
		switch n := len(out); {
		case p.layer >= 0 && (p.layer < layers.Start || p.layer >= layers.End):
		case n > 0 && out[n-1].join(p.Piece):
		default:
			out = append(out, p.Piece)
		}
	}
	return out
}

// Owes reports whether a writer has any byte to write.
func (m *Mapping) Owes(writer int) bool {
	for _, p := range m.whole[writer] {
		if len(p) > 0 {
			return true
		}
	}
	return false
}

// Bytes is the size of what a writer's share of a plan copies.
func (m *Mapping) Bytes(writer int, plan []GroupCopy) uint64 {
	var n uint64
	for _, c := range plan {
		n += c.bytes(m.whole[writer][c.Group])
	}
	return n
}

// partBytes is the size of some layers of a writer's share of a plan.
func (m *Mapping) partBytes(writer int, plan []GroupCopy, layers kvcache.Span) uint64 {
	var n uint64
	for _, c := range plan {
		n += c.bytes(m.Part(writer, c.Group, layers))
	}
	return n
}

func (c GroupCopy) bytes(pieces []Piece) uint64 {
	var n uint64
	for _, p := range pieces {
		n += uint64(len(c.Src)) * uint64(p.Len)
	}
	return n
}
