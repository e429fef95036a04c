package reference

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
)

// one is a model that is not cut.
var one = kvcache.Parallel{Tensor: 1, Pipeline: 1}

// memory is a runner's pools as the engine has them, rank by rank, and the shards that say
// what lies where in them.
type memory struct {
	r      *Runner
	shards []kvcache.Shard
	pools  [][]byte
	blocks int
}

// newMemory attaches pools of so many blocks, full of NaN.
func newMemory(t testing.TB, r *Runner, p kvcache.Parallel, blocks int) *memory {
	t.Helper()
	shards, err := r.layout.Shards(p)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{r: r, shards: shards, blocks: blocks}
	for _, s := range shards {
		for g := range r.layout.Groups {
			var pool []byte
			if n := s.BlockBytes(g); n > 0 {
				pool = make([]byte, blocks*n)
			}
			poison(pool)
			m.pools = append(m.pools, pool)
		}
	}
	if err := r.Attach(m.pools); err != nil {
		t.Fatal(err)
	}
	return m
}

// poison fills stored values with NaN, in either type.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

func (m *memory) tables() []kvcache.BlockTable { return sequentialTables(m.r, 0, m.blocks) }

// block visits every rank's part of a block of group g.
func (m *memory) block(g int, b kvcache.BlockID, visit func(part []byte)) {
	for i, s := range m.shards {
		size := s.BlockBytes(g)
		visit(m.pools[i*len(m.r.layout.Groups)+g][int(b)*size : (int(b)+1)*size])
	}
}

// rows visits where a position's keys and values of group g lie, on every rank that holds
// them. index is (layer*2 + (0 for K, 1 for V)) * KV heads + head, of the whole model's.
func (m *memory) rows(t kvcache.BlockTable, g, pos int, visit func(index int, row []byte)) {
	lay := m.r.layout
	size := lay.RowBytes()
	at := int(t.Block(pos / lay.BlockTokens))
	for i, s := range m.shards {
		pool := m.pools[i*len(lay.Groups)+g]
		for n, layer := range lay.Groups[g].Layers {
			for h := range 2 * lay.KVHeads {
				kv, head := h/lay.KVHeads, h%lay.KVHeads
				if !s.Holds(g, n, head) {
					continue
				}
				row := pool[at*s.BlockBytes(g)+s.HeadOffset(g, n, kv, head)+pos%lay.BlockTokens*size:]
				visit((layer*2+kv)*lay.KVHeads+head, row[:size])
			}
		}
	}
}

// truth is what one token after another, alone in its batch, gives: the logits and the KV
// of every position, as [layer][K,V][head][dim].
type truth struct {
	logits [][]float32
	kv     [][]byte
}

func (m *memory) truth(t testing.TB, tokens []int32) truth {
	lay, tables := m.r.layout, m.tables()
	var out truth
	for pos := range tokens {
		logits := make([]float32, m.r.model.Vocab)
		forward(t, m.r, runner.Work{Tokens: tokens[pos : pos+1], Start: pos, Tables: tables, Logits: logits})
		out.logits = append(out.logits, logits)
	}
	size := lay.RowBytes()
	for pos := range tokens {
		kv := make([]byte, len(m.r.place)*2*lay.KVHeads*size)
		for g, table := range tables {
			m.rows(table, g, pos, func(index int, row []byte) { copy(kv[index*size:], row) })
		}
		out.kv = append(out.kv, kv)
	}
	return out
}

// truthOf gives the truth of a runner with one rank.
func truthOf(t testing.TB, r *Runner, tokens []int32) truth {
	return newMemory(t, r, one, r.layout.TotalBlocks(len(tokens))).truth(t, tokens)
}

// snapshot is a copy of the memory that nobody runs on.
func (m *memory) snapshot() *memory {
	c := *m
	c.pools = nil
	for _, p := range m.pools {
		c.pools = append(c.pools, slices.Clone(p))
	}
	return &c
}

// equal compares every byte.
func (m *memory) equal(want *memory) error {
	for i, got := range m.pools {
		if bytes.Equal(got, want.pools[i]) {
			continue
		}
		at := 0
		for got[at] == want.pools[i][at] {
			at++
		}
		groups := len(m.r.layout.Groups)
		size := m.shards[i/groups].BlockBytes(i % groups)
		return fmt.Errorf("rank %d, layer group %d, block %d: byte %d is %#x, want %#x",
			i/groups, i%groups, at/size, at%size, got[at], want.pools[i][at])
	}
	return nil
}
