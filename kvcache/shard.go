package kvcache

import "fmt"

// Parallel is how an engine is cut into ranks: Pipeline stages, each a share of the layers, of
// Tensor ranks, each a share of the heads. Rank numbers count through a stage first.
type Parallel struct{ Tensor, Pipeline int }

// Ranks is the number of ranks.
func (p Parallel) Ranks() int { return p.Tensor * p.Pipeline }

// Shard is what one rank holds of every block. A block has the same number on every rank.
type Shard struct {
	layout Layout
	// Heads are the KV heads, of the whole model's.
	Heads Span
	// Layers[g] are the layers of group g, by their position in the group; a stage may hold
	// none of a group.
	Layers []Span
}

// Shards cuts the layout. Where there are more ranks than heads, each head is on several.
func (l Layout) Shards(p Parallel) ([]Shard, error) {
	layers := 0
	for _, g := range l.Groups {
		layers += len(g.Layers)
	}
	switch {
	case p.Tensor < 1 || l.KVHeads%p.Tensor != 0 && p.Tensor%l.KVHeads != 0:
		return nil, fmt.Errorf("tensor_parallel_size %d: does not divide %d KV heads, nor they it", p.Tensor, l.KVHeads)
	case p.Pipeline < 1 || p.Pipeline > layers:
		return nil, fmt.Errorf("pipeline_parallel_size %d: want 1 to %d, the number of layers", p.Pipeline, layers)
	}
	var shards []Shard
	for stage := range p.Pipeline {
		first, end := stage*layers/p.Pipeline, (stage+1)*layers/p.Pipeline
		for t := range p.Tensor {
			s := Shard{layout: l, Heads: headsOf(l.KVHeads, p.Tensor, t)}
			for _, g := range l.Groups {
				s.Layers = append(s.Layers, positions(g.Layers, first, end))
			}
			shards = append(shards, s)
		}
	}
	return shards, nil
}

func headsOf(heads, ranks, rank int) Span {
	if ranks > heads {
		h := rank * heads / ranks
		return Span{h, h + 1}
	}
	n := heads / ranks
	return Span{rank * n, (rank + 1) * n}
}

// positions is where the layers [first,end) stand in an ascending list.
func positions(layers []int, first, end int) Span {
	var s Span
	for _, l := range layers {
		if l < first {
			s.Start++
		}
		if l < end {
			s.End++
		}
	}
	return s
}

// BlockBytes is the size of one block of group g on this rank, 0 if it holds none of it.
func (s Shard) BlockBytes(g int) int {
	if group := s.layout.Groups[g]; group.Recurrent() {
		return s.Layers[g].Len() * group.StateBytes
	}
	return s.Layers[g].Len() * s.layerBytes()
}

func (s Shard) layerBytes() int { return 2 * s.Heads.Len() * s.layout.HeadBytes() }

// HeadOffset is where in this rank's block head's K (kv 0) or V (kv 1) of the group's layer
// number layer begins, in bytes. Both must be on this rank.
func (s Shard) HeadOffset(g, layer, kv, head int) int {
	return (layer-s.Layers[g].Start)*s.layerBytes() + (kv*s.Heads.Len()+head-s.Heads.Start)*s.layout.HeadBytes()
}

// StateOffset is where in this rank's block of a recurrent group the state of its layer number
// layer begins, in bytes. Every rank of a stage holds the whole state.
func (s Shard) StateOffset(g, layer int) int {
	return (layer - s.Layers[g].Start) * s.layout.Groups[g].StateBytes
}

// HoldsLayer reports whether a group's layer is on this rank.
func (s Shard) HoldsLayer(g, layer int) bool {
	return layer >= s.Layers[g].Start && layer < s.Layers[g].End
}

// Holds reports whether a head of a group's layer is on this rank.
func (s Shard) Holds(g, layer, head int) bool {
	return s.HoldsLayer(g, layer) && head >= s.Heads.Start && head < s.Heads.End
}
