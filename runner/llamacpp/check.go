//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"errors"
	"fmt"

	"kvferry/runner"
)

// check refuses a batch that cannot be computed, before anything is written.
func check(batch []runner.Work, m runner.Model, r *rows) error {
	if r.pools == nil {
		return errors.New("no pools are attached")
	}
	names := map[string]bool{}
	for i := range batch {
		w := &batch[i]
		err := checkWork(w, m, r)
		if err == nil && w.Sequence != "" && names[w.Sequence] {
			err = fmt.Errorf("sequence %q is in the batch twice", w.Sequence)
		}
		if err != nil {
			return fmt.Errorf("work %d of the batch: %w", i, err)
		}
		names[w.Sequence] = true
	}
	return nil
}

func checkWork(w *runner.Work, m runner.Model, r *rows) error {
	n := len(w.Tokens)
	switch {
	case n == 0:
		return errors.New("no tokens")
	case w.Start < 0 || w.Start > m.Context-n:
		return fmt.Errorf("%d tokens at position %d leave the context of %d", n, w.Start, m.Context)
	case w.Logits != nil && len(w.Logits) != m.Vocab:
		return fmt.Errorf("room for %d logits, want %d", len(w.Logits), m.Vocab)
	case len(w.Tables) != len(r.layout.Groups):
		return fmt.Errorf("%d block tables for %d layer groups", len(w.Tables), len(r.layout.Groups))
	}
	for i, t := range w.Tokens {
		if t < 0 || int(t) >= m.Vocab {
			return fmt.Errorf("token %d is %d, outside the vocabulary of %d", i, t, m.Vocab)
		}
	}
	for g := range w.Tables {
		if err := checkTable(w, g, r); err != nil {
			return fmt.Errorf("layer group %d: %w", g, err)
		}
	}
	return nil
}

// checkTable refuses a table without the blocks that a group's layers read or write.
func checkTable(w *runner.Work, g int, r *rows) error {
	tpb := r.layout.BlockTokens
	first, end := visible(r.layout.Groups[g], w.Start)/tpb, r.layout.TotalBlocks(w.Start+len(w.Tokens))
	t := w.Tables[g]
	if t.First < 0 || t.First > first || t.End() < end {
		return fmt.Errorf("block table [%d,%d) does not cover blocks [%d,%d)", t.First, t.End(), first, end)
	}
	for i, b := range t.Blocks {
		if b < 0 || int(b) >= r.blocks(g) {
			return fmt.Errorf("logical block %d is block %d, outside the pool of %d", t.First+i, b, r.blocks(g))
		}
	}
	return nil
}
