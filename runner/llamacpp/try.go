//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"bytes"
	"fmt"

	"kvferry/kvcache"
	"kvferry/runner"
)

// openTap makes rows be taken straight from llama.cpp's memory, if that gives what its states give.
// Where it does not, a log line says so, and rows are taken from states.
func (r *Runner) openTap() {
	switch {
	case r.opt.StateAPI:
		return
	case r.tap == nil:
		r.untap(r.tapless)
		return
	}
	r.places = places(r.rows.layout.Groups)
	group := make([]int, len(r.places))
	for i, p := range r.places {
		group[i] = p.group
	}
	s := r.rows.shape[0]
	r.tap.shape(group, len(r.rows.shape), s.row, s.kind)
	if err := r.try(); err != nil && r.tapping {
		r.untap(err)
	}
}

// The sequences that the tap is tried with: what of them is computed together, and then, when one
// in the middle was dropped and a new one has taken its cells and others, what goes on.
var (
	trialFirst  = []int{3, 2, 2}
	trialSecond = []int{1, 0, 1, 4}
)

// trialTokens is as long as none of them gets.
const trialTokens = 8

// try computes some tokens in sequences whose cells do not lie in order, takes their rows both ways,
// and compares.
func (r *Runner) try() error {
	per := r.rows.layout.TotalBlocks(trialTokens)
	half := len(trialSecond) * per
	r.rows.pools = nil
	for g := range r.rows.layout.Groups {
		r.rows.pools = append(r.rows.pools, make([]byte, 2*half*r.rows.layout.BlockBytes(g)))
	}
	r.tapping = true
	defer func() {
		r.dropAll()
		r.rows.pools = nil
	}()
	at := make([]int, len(trialSecond))
	for pass, counts := range [][]int{trialFirst, trialSecond} {
		r.tap.learn = pass == 0
		batch := r.trial(counts, at, per)
		if err := r.group(batch); err != nil || !r.tapping {
			return err
		}
		if err := r.states(batch, half); err != nil {
			return err
		}
	}
	for g, pool := range r.rows.pools {
		if n := len(pool) / 2; !bytes.Equal(pool[:n], pool[n:]) {
			return fmt.Errorf("%w: the rows in memory are not those of the states, in layer group %d", errTap, g)
		}
	}
	return nil
}

// trial are works of so many tokens, as many as may be computed together: where that is one, it shows
// less, but is all that there will be.
func (r *Runner) trial(counts, at []int, per int) []runner.Work {
	var batch []runner.Work
	for i, n := range counts {
		if n == 0 || len(batch) == r.opt.Sequences {
			continue
		}
		w := runner.Work{Sequence: fmt.Sprint(i), Start: at[i]}
		for j := range n {
			w.Tokens = append(w.Tokens, int32((i*31+(at[i]+j)*17+1)%r.model.Vocab))
		}
		for range r.rows.layout.Groups {
			var t kvcache.BlockTable
			for b := range per {
				t.Blocks = append(t.Blocks, kvcache.BlockID(i*per+b))
			}
			w.Tables = append(w.Tables, t)
		}
		at[i] += n
		batch = append(batch, w)
	}
	return batch
}

// states writes what a batch computed into other blocks, from states.
func (r *Runner) states(batch []runner.Work, behind int) error {
	for _, w := range batch {
		for g := range w.Tables {
			for i := range w.Tables[g].Blocks {
				w.Tables[g].Blocks[i] += kvcache.BlockID(behind)
			}
		}
		h := r.held[w.Sequence]
		if h == nil {
			return fmt.Errorf("%w: a sequence is not held", errExport)
		}
		if err := r.exportStates(&w, h.id, w.Start, w.Start+len(w.Tokens)); err != nil {
			return err
		}
	}
	return nil
}
