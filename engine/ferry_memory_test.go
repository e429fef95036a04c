package engine_test

import (
	"bytes"
	"encoding/binary"

	"kvferry/kvcache"
)

// request is what is known of a request beforehand: its prompt, its answer, and what every
// byte of its KV must be. All of it follows from the prompt alone.
type request struct {
	id     string
	ask    ask
	all    []int32  // the prompt, and the tokens drawn after it
	states []uint64 // states[n] stands for the first n tokens
}

// newRequest works out a request's answer.
func newRequest(id string, a ask) *request {
	r := &request{id: id, ask: a, states: []uint64{scramble(7)}}
	for n := 0; n < len(a.tokens)+a.max; n++ {
		token := int32(scramble(r.states[n]+1) % vocabulary)
		if n < len(a.tokens) {
			token = a.tokens[n]
		}
		r.all = append(r.all, token)
		r.states = append(r.states, scramble(r.states[n]^uint64(token+1)))
	}
	return r
}

func (r *request) prompt() int { return len(r.ask.tokens) }

// scramble is the finaliser of splitmix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// kvTag is what one head's K or V of a position holds: the prefix up to there, and where in
// the model it is.
func (r *request) kvTag(position, layer, kv, head int) uint64 {
	return r.states[position+1] + uint64(1+head+16*(kv+2*layer))*0x9e3779b97f4a7c15
}

// stateTag is what part i of a layer's state holds after n tokens.
func (r *request) stateTag(n, layer, i int) uint64 {
	return r.states[n] - uint64(1+i+16*layer)*0x9e3779b97f4a7c15
}

// memory is the pools of all ranks of one engine.
type memory struct {
	layout kvcache.Layout
	ranks  []rankMemory
	// used, by group and block: something was written since the block was poisoned.
	used [][]bool
}

// rankMemory is one rank's pools. Which heads and layers it has, and where they lie, is worked
// out here once more, for what is read; what the model writes goes where Shard says.
type rankMemory struct {
	shard     kvcache.Shard
	head, end int     // the heads [head,end)
	layers    [][]int // by group, model layers
	size      []int   // of a block, by group
	pools     [][]byte
	stamps    [][]uint32 // by group, of each tag: the epoch that wrote it last
}

const poison = 0xee

func newMemory(l kvcache.Layout, p kvcache.Parallel, blocks []int, a *arena) *memory {
	shards, err := l.Shards(p)
	if err != nil {
		panic(err)
	}
	m := &memory{layout: l}
	for _, n := range blocks {
		m.used = append(m.used, make([]bool, n))
	}
	total := layersOf(l)
	for i, shard := range shards {
		stage, rank := i/p.Tensor, i%p.Tensor
		r := rankMemory{shard: shard, head: rank * l.KVHeads / p.Tensor, end: (rank + 1) * l.KVHeads / p.Tensor}
		if r.end == r.head {
			r.end++ // one head on several ranks
		}
		for g, group := range l.Groups {
			var layers []int
			for _, layer := range group.Layers {
				if layer >= stage*total/p.Pipeline && layer < (stage+1)*total/p.Pipeline {
					layers = append(layers, layer)
				}
			}
			size := len(layers) * 2 * (r.end - r.head) * l.BlockTokens * tagBytes
			if group.Recurrent() {
				size = len(layers) * group.StateBytes
			}
			if size != shard.BlockBytes(g) {
				failf("rank %d of %+v: a block of group %d has %d bytes and should have %d", i, p, g, shard.BlockBytes(g), size)
			}
			r.layers, r.size = append(r.layers, layers), append(r.size, size)
			pool := a.bytes(blocks[g] * size)
			fill(pool)
			r.pools, r.stamps = append(r.pools, pool), append(r.stamps, a.words(len(pool)/tagBytes))
		}
		m.ranks = append(m.ranks, r)
	}
	return m
}

func fill(b []byte) {
	if len(b) > 0 {
		b[0] = poison
		for n := 1; n < len(b); n *= 2 {
			copy(b[n:], b[:n])
		}
	}
}

func (r *rankMemory) block(g int, b kvcache.BlockID) []byte {
	return r.pools[g][int(b)*r.size[g]:][:r.size[g]]
}

// freed poisons a block whose content nobody can want.
func (m *memory) freed(g int, b kvcache.BlockID) {
	m.used[g][b] = false
	for i := range m.ranks {
		fill(m.ranks[i].block(g, b))
	}
}

func (m *memory) copyBlock(c kvcache.BlockCopy) {
	m.used[c.Group][c.To] = true
	for i := range m.ranks {
		copy(m.ranks[i].block(c.Group, c.To), m.ranks[i].block(c.Group, c.From))
	}
}

// put writes some layers of a position's K and V into a block, on every rank.
func (m *memory) put(r *request, g int, b kvcache.BlockID, position int, layers kvcache.Span) {
	m.used[g][b] = true
	slot := position % m.layout.BlockTokens * tagBytes
	for i := range m.ranks {
		rank := &m.ranks[i]
		block := rank.block(g, b)
		for at, layer := range m.layout.Groups[g].Layers {
			if layer < layers.Start || layer >= layers.End || !rank.shard.HoldsLayer(g, at) {
				continue
			}
			for kv := range 2 {
				for head := range m.layout.KVHeads {
					if rank.shard.Holds(g, at, head) {
						binary.LittleEndian.PutUint64(block[rank.shard.HeadOffset(g, at, kv, head)+slot:], r.kvTag(position, layer, kv, head))
					}
				}
			}
		}
	}
}

// check compares what a block holds of a position with what it must hold, on every rank.
func (m *memory) check(r *request, g int, b kvcache.BlockID, position int) {
	slot := position % m.layout.BlockTokens
	for i := range m.ranks {
		rank := &m.ranks[i]
		block := rank.block(g, b)
		for at, layer := range rank.layers[g] {
			for kv := range 2 {
				for head := rank.head; head < rank.end; head++ {
					cell := (at*2+kv)*(rank.end-rank.head) + head - rank.head
					got := binary.LittleEndian.Uint64(block[(cell*m.layout.BlockTokens+slot)*tagBytes:])
					if got != r.kvTag(position, layer, kv, head) {
						failf("%s: rank %d, group %d, layer %d, kv %d, head %d: position %d holds %s", r.id, i, g, layer, kv, head, position, whatIs(got))
					}
				}
			}
		}
	}
}

func whatIs(got uint64) string {
	if got == 0x0101010101010101*poison {
		return "poison"
	}
	return "something else"
}

// putState writes the state that some layers of a recurrent group have after n tokens.
func (m *memory) putState(r *request, g int, b kvcache.BlockID, n int, layers kvcache.Span) {
	m.used[g][b] = true
	m.eachState(g, b, func(_, layer, i int, word []byte) {
		if layer >= layers.Start && layer < layers.End {
			binary.LittleEndian.PutUint64(word, r.stateTag(n, layer, i))
		}
	})
}

func (m *memory) checkState(r *request, g int, b kvcache.BlockID, n int) {
	m.eachState(g, b, func(rank, layer, i int, word []byte) {
		if got := binary.LittleEndian.Uint64(word); got != r.stateTag(n, layer, i) {
			failf("%s: rank %d, group %d, layer %d: the state after %d tokens holds %s", r.id, rank, g, layer, n, whatIs(got))
		}
	})
}

func (m *memory) eachState(g int, b kvcache.BlockID, visit func(rank, layer, i int, word []byte)) {
	words := m.layout.Groups[g].StateBytes / tagBytes
	for i := range m.ranks {
		block := m.ranks[i].block(g, b)
		for at, layer := range m.ranks[i].layers[g] {
			for w := range words {
				visit(i, layer, w, block[(at*words+w)*tagBytes:][:tagBytes])
			}
		}
	}
}

// poisoned checks that nothing was written into a block.
func (m *memory) poisoned(g int, b kvcache.BlockID, template []byte) {
	for i := range m.ranks {
		if block := m.ranks[i].block(g, b); !bytes.Equal(block, template[:len(block)]) {
			failf("rank %d, group %d: block %d was written, and is nobody's", i, g, b)
		}
	}
}

// sweep checks every block that nothing was written into.
func (m *memory) sweep() {
	most := 0
	for i := range m.ranks {
		for _, n := range m.ranks[i].size {
			most = max(most, n)
		}
	}
	template := make([]byte, most)
	fill(template)
	for g := range m.used {
		for b, used := range m.used[g] {
			if !used {
				m.poisoned(g, kvcache.BlockID(b), template)
			}
		}
	}
}

// arena lends memory to one case after another.
type arena struct {
	b   []byte
	w   []uint32
	atB int
	atW int
}

func (a *arena) reset() { a.atB, a.atW = 0, 0 }

func (a *arena) bytes(n int) []byte {
	if a.atB+n > len(a.b) {
		a.b, a.atB = make([]byte, max(2*len(a.b), n, 1<<20)), 0
	}
	a.atB += n
	return a.b[a.atB-n : a.atB : a.atB]
}

func (a *arena) words(n int) []uint32 {
	if a.atW+n > len(a.w) {
		a.w, a.atW = make([]uint32, max(2*len(a.w), n, 1<<17)), 0
	}
	a.atW += n
	w := a.w[a.atW-n : a.atW : a.atW]
	clear(w)
	return w
}
