package sim

import (
	"encoding/binary"

	"kvferry/kvcache"
)

// The toy model. A token's KV in one layer is a cell of 8 bytes, which depends on the token,
// all tokens before it, the layer and the position. Prompts are drawn so that no two are alike
// by chance: a block of another request, another position or another time can never pass for
// it. The next token is a function of the same, so that it does not matter which engine draws
// it.

// vocab is the number of tokens; endToken ends an answer, and is drawn once in endOdds.
const (
	vocab    = 1 << 16
	endToken = 0
	endOdds  = 12
	cellSize = 8
)

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func mix2(a, b uint64) uint64 { return mix(mix(a+0x9e3779b97f4a7c15) ^ b) }

// sequence is all that a request can come to: its prompt and the answer that is right.
type sequence struct {
	prompt int
	tokens []int32  // prompt and answer
	chain  []uint64 // chain[i] hashes tokens [0,i]
	stops  bool     // the answer ends with endToken
}

// newSequence draws a prompt behind what it has in common with another one, and computes its
// answer: the aggregated run in a few lines.
func newSequence(seed uint64, request int, r Request, alike []int32) *sequence {
	n := r.Prompt
	if r.After > 0 {
		n += len(alike)
	}
	s := &sequence{prompt: n}
	for i := range n {
		if i < len(alike) {
			s.push(alike[i])
			continue
		}
		s.push(int32(mix2(mix2(seed, uint64(request)), uint64(i))%(vocab-1)) + 1)
	}
	for range r.Max {
		t := drawn(s.chain[len(s.chain)-1])
		s.push(t)
		if t == endToken && !r.IgnoreEOS {
			s.stops = true
			break
		}
	}
	return s
}

func (s *sequence) push(t int32) {
	before := uint64(0)
	if n := len(s.chain); n > 0 {
		before = s.chain[n-1]
	}
	s.tokens = append(s.tokens, t)
	s.chain = append(s.chain, mix2(before, uint64(t)))
}

// drawn is the token after those that a chain is of.
func drawn(chain uint64) int32 {
	h := mix2(chain, 'n')
	if h%endOdds == 0 {
		return endToken
	}
	return int32(h>>32%(vocab-1)) + 1
}

// answer is the tokens that are to be drawn.
func (s *sequence) answer() []int32 { return s.tokens[s.prompt:] }

// cell is what the KV of a position holds in a head.
func (s *sequence) cell(group, layer, kv, head, position int) uint64 {
	return mix2(s.chain[position], uint64(group)<<24|uint64(layer)<<16|uint64(head)<<1|uint64(kv))
}

// state is a recurrent layer's state after a position.
func (s *sequence) state(group, layer, position int) uint64 {
	return mix2(s.chain[position], 1<<32|uint64(group)<<16|uint64(layer))
}

// layout is the cache of the toy model: a cell a token, head and layer, or a state a layer.
func (c Cluster) layout() kvcache.Layout {
	l := kvcache.Layout{BlockTokens: c.BlockTokens, KVHeads: c.Heads, HeadDim: cellSize / 4, DType: kvcache.F32}
	next := 0
	for _, w := range c.Windows {
		g := kvcache.LayerGroup{Window: max(0, w)}
		if w < 0 {
			g.StateBytes = cellSize
		}
		for range c.Layers {
			g.Layers = append(g.Layers, next)
			next++
		}
		l.Groups = append(l.Groups, g)
	}
	return l
}

func putCell(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }
func getCell(b []byte) uint64    { return binary.LittleEndian.Uint64(b) }
