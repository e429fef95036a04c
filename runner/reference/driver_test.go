package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
)

// sequence is one request in a driven batch.
type sequence struct {
	tokens []int32
	truth  truth
	done   int
	tables []kvcache.BlockTable
}

// randomSequences makes n sequences of up to 40 tokens, with the truth from a runner of one
// rank.
func randomSequences(t testing.TB, r *Runner, rng *rand.Rand, n int) (seqs []*sequence) {
	for range n {
		s := &sequence{tables: make([]kvcache.BlockTable, len(r.layout.Groups))}
		for range 1 + rng.IntN(40) {
			s.tokens = append(s.tokens, rng.Int32N(int32(r.model.Vocab)))
		}
		s.truth = truthOf(t, r, s.tokens)
		seqs = append(seqs, s)
	}
	return seqs
}

// blocksFor is enough blocks for all sequences, and some that nobody takes.
func blocksFor(r *Runner, seqs []*sequence) int {
	blocks := 3
	for _, s := range seqs {
		blocks += r.layout.TotalBlocks(len(s.tokens))
	}
	return blocks
}

// driver runs sequences over pools that hold NaN wherever nothing was stored.
type driver struct {
	r    *Runner
	mem  *memory
	rng  *rand.Rand
	free [][]kvcache.BlockID
}

// newDriver attaches pools of so many blocks, whose free ones are handed out in random order.
func newDriver(t testing.TB, r *Runner, p kvcache.Parallel, blocks int, rng *rand.Rand) *driver {
	d := &driver{r: r, mem: newMemory(t, r, p, blocks), rng: rng}
	for range r.layout.Groups {
		var ids []kvcache.BlockID
		for _, b := range rng.Perm(blocks) {
			ids = append(ids, kvcache.BlockID(b))
		}
		d.free = append(d.free, ids)
	}
	return d
}

// prepare gives s the blocks for n more tokens, takes away those that no layer of the group
// can see any more, and poisons whatever of the rest lies outside the window.
func (d *driver) prepare(s *sequence, n int) {
	lay := d.r.layout
	for g := range s.tables {
		t := &s.tables[g]
		for t.End() < lay.TotalBlocks(s.done+n) {
			last := len(d.free[g]) - 1
			t.Blocks = append(t.Blocks, d.free[g][last])
			d.free[g] = d.free[g][:last]
		}
		from := visibleFrom(s.done, lay.Groups[g].Window)
		for t.First < from/lay.BlockTokens {
			b := t.Blocks[0]
			d.mem.block(g, b, poison)
			// The next to take a block may well get this one.
			d.free[g] = slices.Insert(d.free[g], d.rng.IntN(len(d.free[g])+1), b)
			t.Blocks = t.Blocks[1:]
			t.First++
		}
		for pos := t.First * lay.BlockTokens; pos < from; pos++ {
			d.mem.rows(*t, g, pos, func(_ int, row []byte) { poison(row) })
		}
	}
}

// chunk is a part of a sequence.
type chunk struct {
	s      *sequence
	n      int
	logits bool
}

// advance computes chunks in one batch and compares with the truth: the logits asked for, the
// new KV on every rank that holds it, and all other bytes, which must not change.
func (d *driver) advance(chunks ...chunk) error {
	var batch []runner.Work
	for _, c := range chunks {
		d.prepare(c.s, c.n)
		w := runner.Work{Tokens: c.s.tokens[c.s.done : c.s.done+c.n], Start: c.s.done, Tables: c.s.tables}
		if c.logits {
			w.Logits = make([]float32, d.r.model.Vocab)
		}
		batch = append(batch, w)
	}
	want := d.mem.snapshot()
	if err := d.r.Forward(batch); err != nil {
		return err
	}
	for i, c := range chunks {
		for range c.n {
			for g, t := range c.s.tables {
				want.rows(t, g, c.s.done, func(index int, row []byte) {
					copy(row, c.s.truth.kv[c.s.done][index*len(row):])
				})
			}
			c.s.done++
		}
		if err := equalBits(batch[i].Logits, c.s.truth.logits[c.s.done-1]); err != nil {
			return fmt.Errorf("%d tokens up to position %d: %w", c.n, c.s.done, err)
		}
	}
	return d.mem.equal(want)
}

// finish runs random chunks of random sequences, some in each batch, until all are done.
func (d *driver) finish(seqs []*sequence) error {
	for len(seqs) > 0 {
		var chunks []chunk
		for _, i := range d.rng.Perm(len(seqs))[:1+d.rng.IntN(len(seqs))] {
			s := seqs[i]
			chunks = append(chunks, chunk{s, 1 + d.rng.IntN(len(s.tokens)-s.done), d.rng.IntN(3) > 0})
		}
		if err := d.advance(chunks...); err != nil {
			return err
		}
		seqs = slices.DeleteFunc(seqs, func(s *sequence) bool { return s.done == len(s.tokens) })
	}
	return nil
}

func equalBits(got, want []float32) error {
	for v := range got {
		if math.Float32bits(got[v]) != math.Float32bits(want[v]) {
			return fmt.Errorf("logit %d is %g, want %g", v, got[v], want[v])
		}
	}
	return nil
}
