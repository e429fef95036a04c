package reference

import (
	"errors"
	"fmt"

	"kvferry/kvcache"
	"kvferry/runner"
)

// check refuses a batch that cannot be computed, before anything is written.
func (r *Runner) check(batch []runner.Work) error {
	if r.closed {
		return errors.New("the runner is closed")
	}
	if r.written == nil {
		return errors.New("no pools are attached")
	}
	r.passes++
	for i := range batch {
		if err := r.checkWork(&batch[i]); err != nil {
			return fmt.Errorf("work %d of the batch: %w", i, err)
		}
	}
	return nil
}

func (r *Runner) checkWork(w *runner.Work) error {
	n := len(w.Tokens)
	switch {
	case n == 0:
		return errors.New("no tokens")
	case w.Start < 0 || w.Start > r.model.Context-n:
		return fmt.Errorf("%d tokens at position %d leave the context of %d", n, w.Start, r.model.Context)
	case w.Logits != nil && len(w.Logits) != r.model.Vocab:
		return fmt.Errorf("room for %d logits, want %d", len(w.Logits), r.model.Vocab)
	case len(w.Tables) != len(r.layout.Groups):
		return fmt.Errorf("%d block tables for %d layer groups", len(w.Tables), len(r.layout.Groups))
	}
	for i, t := range w.Tokens {
		if t < 0 || int(t) >= r.model.Vocab {
			return fmt.Errorf("token %d is %d, outside the vocabulary of %d", i, t, r.model.Vocab)
		}
	}
	for g := range w.Tables {
		if err := r.checkTable(w, g); err != nil {
			return fmt.Errorf("layer group %d: %w", g, err)
		}
	}
	return nil
}

// checkTable checks that group g's table covers what the work reads and writes there, with
// blocks of the pool, and that no block is written for two places.
func (r *Runner) checkTable(w *runner.Work, g int) error {
	t := w.Tables[g]
	tpb := r.layout.BlockTokens
	end := w.Start + len(w.Tokens)
	first := visibleFrom(w.Start, r.layout.Groups[g].Window) / tpb
	last := (end - 1) / tpb
	if t.First < 0 || t.First > first || len(t.Blocks) <= last-t.First {
		return fmt.Errorf("block table [%d,%d) does not cover blocks [%d,%d)", t.First, t.First+len(t.Blocks), first, last+1)
	}
	written := r.written[g]
	for i, b := range t.Blocks {
		if b < 0 || int(b) >= len(written) {
			return fmt.Errorf("logical block %d is block %d, outside the pool of %d", t.First+i, b, len(written))
		}
		logical := t.First + i
		if logical < w.Start/tpb || logical > last {
			continue
		}
		if written[b] == r.passes {
			return fmt.Errorf("block %d would be written twice", b)
		}
		written[b] = r.passes
	}
	return nil
}

// visibleFrom is the first position that a token at pos sees through a window (0: all).
func visibleFrom(pos, window int) int {
	if window == 0 {
		return 0
	}
	return max(0, pos-window+1)
}

// blockOf is the physical block of a position, and the token's number in it.
func (r *Runner) blockOf(t kvcache.BlockTable, pos int) (block, slot int) {
	tpb := r.layout.BlockTokens
	return int(t.Block(pos / tpb)), pos % tpb
}
