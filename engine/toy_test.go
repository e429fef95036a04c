package engine

import (
	"encoding/binary"

	"kvferry/kvcache"
)

// toy is a model over real bytes in paged blocks: the KV of a token depends on what the layer
// below saw, and the logits on every byte in sight. A block that is missing, stale or another
// request's changes the token that is drawn.
type toy struct {
	layout kvcache.Layout
	pools  [][]byte
}

const toyVocab = 12

func newToy(l kvcache.Layout, blocks []int) *toy {
	m := &toy{layout: l}
	for g, n := range blocks {
		m.pools = append(m.pools, make([]byte, n*l.BlockBytes(g)))
		for b := range n {
			m.poison(g, kvcache.BlockID(b))
		}
	}
	return m
}

// run computes a pass.
func (m *toy) run(batch []Work) []Sampled {
	var out []Sampled
	for _, w := range batch {
		for _, c := range w.Copies {
			copy(m.block(c.Group, c.To), m.block(c.Group, c.From))
		}
		var h uint64
		for i, token := range w.Tokens {
			h = m.token(w.Tables, token, w.Start+i)
		}
		if w.Sample != nil {
			out = append(out, Sample(toyLogits(h), w.Sample.Sampling, w.Sample.Position, w.Sample.Logprobs))
		}
	}
	return out
}

// token takes one token through the layers: each writes its K and V, and reads all in sight.
func (m *toy) token(tables []kvcache.BlockTable, token int32, pos int) uint64 {
	h := mix(uint64(token)<<32 | uint64(pos) + 1)
	for g, group := range m.layout.Groups {
		for layer := range group.Layers {
			binary.LittleEndian.PutUint64(m.at(g, layer, 0, tables[g], pos), h)
			binary.LittleEndian.PutUint64(m.at(g, layer, 1, tables[g], pos), mix(h+uint64(layer)))
			first := 0
			if group.Window > 0 {
				first = max(0, pos+1-group.Window)
			}
			for p := first; p <= pos; p++ {
				for kv := range 2 {
					h = mix(h ^ binary.LittleEndian.Uint64(m.at(g, layer, kv, tables[g], p)))
				}
			}
		}
	}
	return h
}

// at is where a position's K or V is, 8 bytes.
func (m *toy) at(g, layer, kv int, table kvcache.BlockTable, pos int) []byte {
	tpb := m.layout.BlockTokens
	block := m.block(g, table.Block(pos/tpb))
	return block[m.layout.HeadOffset(layer, kv, 0)+pos%tpb*8:][:8]
}

func (m *toy) block(g int, id kvcache.BlockID) []byte {
	n := m.layout.BlockBytes(g)
	return m.pools[g][int(id)*n:][:n]
}

func toyLogits(h uint64) []float32 {
	logits := make([]float32, toyVocab)
	for i := range logits {
		logits[i] = float32(mix(h+uint64(i))%1024) / 128
	}
	return logits
}

// poison overwrites a block whose content nobody can want, so that a read of it shows.
func (m *toy) poison(g int, b kvcache.BlockID) {
	block := m.block(g, b)
	for i := range block {
		block[i] = 0xee
	}
}

// alone is the answer that the aggregated engine gives to a request that has it to itself.
func alone(l kvcache.Layout, r Request) ([]int32, string, FinishReason) {
	blocks := make([]int, len(l.Groups))
	for g := range blocks {
		blocks[g] = 200
	}
	m := newToy(l, blocks)
	e, err := New(Config{
		Layout: l, Blocks: blocks, MaxSeqs: 1, MaxWaiting: 1, Timeout: 1, Context: 100, Ends: []int32{0}, Text: letter,
	})
	if err != nil {
		panic(err)
	}
	r.Leg = Whole
	e.Step(0, Submit{r})
	var tokens []int32
	text := ""
	for {
		for _, o := range e.Outputs() {
			switch o := o.(type) {
			case Compute:
				e.Step(0, Computed{Results: m.run(o.Batch)})
			case Token:
				tokens, text = append(tokens, o.Sampled.Token), text+string(o.Text)
			case Finish:
				if o.Err != nil {
					panic(o.Err)
				}
				return tokens, text + string(o.Text), o.Reason
			}
		}
	}
}
