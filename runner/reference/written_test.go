package reference

import (
	"bytes"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// A pass tells of each layer when its KV is in the blocks, of every work that wants to know and on
// every rank: what is there then is what is there in the end.
// req: PIPE-01, PIPE-30
func TestWritten(t *testing.T) {
	for name, shape := range map[string]reftest.ModelOptions{
		"one group":    {Layers: 4, Heads: 4, KVHeads: 2},
		"with windows": {Arch: "gemma3", Layers: 7, Heads: 4, KVHeads: 4, Window: 5},
	} {
		for _, p := range []kvcache.Parallel{one, {Tensor: 2, Pipeline: 2}} {
			r := loadCut(t, reftest.Model(shape), Options{BlockTokens: 4, KV: kvcache.F16, Parallel: p})
			m := newMemory(t, r, p, 6)
			var seen []*memory
			told := 0
			batch := []runner.Work{
				{Tokens: []int32{7, 8, 9, 10, 11, 12}, Tables: sequentialTables(r, 0, 3), Written: func(through int) {
					seen = append(seen, m.snapshot())
					if through != len(seen) {
						t.Errorf("%s on %+v: layers below %d are told of, want %d", name, p, through, len(seen))
					}
				}},
				{Tokens: []int32{3, 4}, Tables: sequentialTables(r, 3, 3)},
				{Tokens: []int32{5}, Tables: sequentialTables(r, 4, 2), Written: func(int) { told++ }},
			}
			forward(t, r, batch...)
			if len(seen) != len(r.place) || told != len(r.place) {
				t.Fatalf("%s on %+v: told %d and %d times of %d layers", name, p, len(seen), told, len(r.place))
			}
			for i, then := range seen {
				if !m.sameLayers(then, batch[0], i+1) {
					t.Errorf("%s on %+v: when layers below %d were told of, they were not written", name, p, i+1)
				}
			}
			if m.sameLayers(seen[0], batch[0], 2) {
				t.Errorf("%s on %+v: the first is told of when the second is written", name, p)
			}
		}
	}
}

// sameLayers compares a work's rows of the layers below through with those of another memory.
func (m *memory) sameLayers(o *memory, w runner.Work, through int) bool {
	same := true
	perLayer := 2 * m.r.layout.KVHeads
	for g, table := range w.Tables {
		for pos := range w.Tokens {
			rows := map[int][]byte{}
			m.rows(table, g, pos, func(index int, row []byte) { rows[index] = row })
			o.rows(table, g, pos, func(index int, row []byte) {
				same = same && (index >= through*perLayer || bytes.Equal(row, rows[index]))
			})
		}
	}
	return same
}
