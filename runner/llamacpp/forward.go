//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/runner"
)

// held is a sequence in llama.cpp's cells: the positions [0,tokens).
type held struct {
	id     llama.SeqId
	tokens int
	// last is what the blocks had of the last of them. It follows from all tokens before, so
	// that blocks with the same row at its place have the same sequence.
	last []byte
}

var (
	errClosed = errors.New("the runner is closed")
	errDecode = errors.New("llama.cpp could not compute the batch")
	errImport = errors.New("llama.cpp did not take a sequence from the blocks")
	errExport = errors.New("llama.cpp did not give the new rows")
)

// Forward computes a batch: its KV goes into the blocks, and the logits after each work's last
// token into Logits where it is not nil. After an error llama.cpp holds nothing, and the next
// pass begins from the blocks.
func (r *Runner) Forward(batch []runner.Work) error {
	if r.closed {
		return fmt.Errorf("forward: %w", errClosed)
	}
	if err := check(batch, r.model, &r.rows); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	return r.thread.do(func() error {
		for len(batch) > 0 {
			n := r.fitting(batch)
			if err := r.group(batch[:n]); err != nil {
				r.dropAll()
				return fmt.Errorf("forward: %w", err)
			}
			batch = batch[n:]
		}
		return nil
	})
}

// fitting is how many works, from the first on, have room in the cells together.
func (r *Runner) fitting(batch []runner.Work) int {
	tokens := 0
	for i, w := range batch {
		tokens += w.Start + len(w.Tokens)
		if i == r.opt.Sequences || i > 0 && tokens > r.model.Context {
			return i
		}
	}
	return len(batch)
}

// group computes works that fit together.
func (r *Runner) group(batch []runner.Work) error {
	ids, err := r.enter(batch)
	if err != nil {
		return err
	}
	return r.decode(batch, ids)
}

// enter makes llama.cpp hold, of each work, exactly the tokens before it, and nothing else.
func (r *Runner) enter(batch []runner.Work) ([]llama.SeqId, error) {
	keep := map[string]bool{}
	for i := range batch {
		if r.holds(&batch[i]) {
			keep[batch[i].Sequence] = true
		}
	}
	for name, h := range r.held {
		if !keep[name] {
			r.drop(name, h)
		}
	}
	return r.importAll(batch)
}

// holds says whether llama.cpp has the tokens before a work and no more, of the same content as
// the blocks.
func (r *Runner) holds(w *runner.Work) bool {
	h := r.held[w.Sequence]
	if h == nil || h.tokens != w.Start {
		return false
	}
	r.row = r.rows.row(r.row, w.Tables, w.Start-1)
	return bytes.Equal(r.row, h.last)
}

// importAll gives each work a sequence, filled from the blocks if it is a new one.
func (r *Runner) importAll(batch []runner.Work) ([]llama.SeqId, error) {
	ids := make([]llama.SeqId, len(batch))
	for i := range batch {
		w := &batch[i]
		h := r.held[w.Sequence]
		if h == nil || w.Sequence == "" {
			h = &held{id: r.free[len(r.free)-1], tokens: w.Start}
			r.free = r.free[:len(r.free)-1]
			r.held[nameOf(w, i)] = h
			if w.Start > 0 {
				r.state = r.rows.assemble(r.state, w.Tables, w.Start)
				if llama.StateSeqSetDataExt(r.ctx, r.state, h.id, 0) != uint64(len(r.state)) {
					return nil, fmt.Errorf("%w: %d tokens", errImport, w.Start)
				}
			}
		}
		ids[i] = h.id
	}
	return ids, nil
}

// nameOf is under what a work's sequence is held. One without a name gets one that no work asks
// for, as its table says nothing of whose it is.
func nameOf(w *runner.Work, i int) string {
	if w.Sequence == "" {
		return fmt.Sprintf("\x00%d", i)
	}
	return w.Sequence
}

func (r *Runner) drop(name string, h *held) {
	_, _ = llama.MemorySeqRm(r.memory, h.id, -1, -1) // of a whole sequence it never fails
	r.free = append(r.free, h.id)
	delete(r.held, name)
}

// dropAll empties the cells, so that the next sequence has the first ones.
func (r *Runner) dropAll() {
	_ = llama.MemoryClear(r.memory, false)
	for name, h := range r.held {
		r.free = append(r.free, h.id)
		delete(r.held, name)
	}
}

// span is the positions [from,to) of a work.
type span struct{ work, from, to int }

// decode computes all tokens, batchTokens at a time, takes the logits that are asked for, and writes
// the new rows into the blocks.
func (r *Runner) decode(batch []runner.Work, ids []llama.SeqId) error {
	_ = r.batch.Clear()
	var spans []span // what is in the present llama.cpp batch
	for i, w := range batch {
		for from := 0; from < len(w.Tokens); {
			to := min(len(w.Tokens), from+batchTokens-int(r.batch.NTokens))
			for j := from; j < to; j++ {
				asked := w.Logits != nil && j == len(w.Tokens)-1
				if err := r.batch.Add(llama.Token(w.Tokens[j]), llama.Pos(w.Start+j), ids[i:i+1], asked); err != nil {
					return err
				}
			}
			spans = append(spans, span{i, w.Start + from, w.Start + to})
			from = to
			if r.batch.NTokens == batchTokens {
				if err := r.flush(batch, ids, spans); err != nil {
					return err
				}
				spans = spans[:0]
			}
		}
	}
	return r.flush(batch, ids, spans)
}

// flush computes one llama.cpp batch. Its rows are exported at once: the next batch may take the
// cells of positions that have left a window.
func (r *Runner) flush(batch []runner.Work, ids []llama.SeqId, spans []span) error {
	if r.batch.NTokens == 0 {
		return nil
	}
	r.begin(batch, spans)
	if code, err := llama.Decode(r.ctx, r.batch); err != nil || code != 0 {
		return fmt.Errorf("%w: %d tokens: code %d", errors.Join(errDecode, err), r.batch.NTokens, code)
	}
	next := 0 // the batch's token behind the span's
	for _, s := range spans {
		w := &batch[s.work]
		next += s.to - s.from
		if w.Logits == nil || s.to != w.Start+len(w.Tokens) {
			continue
		}
		logits, err := llama.GetLogitsIth(r.ctx, int32(next-1), r.model.Vocab)
		if err != nil || logits == nil {
			return fmt.Errorf("%w: no logits", errors.Join(errDecode, err))
		}
		copy(w.Logits, logits)
	}
	taken, err := r.finish(batch, spans)
	if err != nil {
		return err
	}
	for _, s := range spans {
		w := &batch[s.work]
		if !taken {
			if err := r.exportStates(w, ids[s.work], s.from, s.to); err != nil {
				return err
			}
		}
		if h := r.held[w.Sequence]; h != nil && w.Sequence != "" {
			h.tokens = s.to
			h.last = r.rows.row(h.last, w.Tables, s.to-1)
		}
	}
	return r.batch.Clear()
}

// exportStates writes the positions [from,to) of a work into its blocks. A state has of a window group
// only what its last token sees, so that no more than a window is taken at once.
func (r *Runner) exportStates(w *runner.Work, id llama.SeqId, from, to int) error {
	for from < to {
		end := to
		if window := r.window(); window > 0 {
			end = min(to, from+window)
		}
		if err := r.exportState(w, id, from, end); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// exportState takes positions out of llama.cpp by way of a sequence that has nothing else.
func (r *Runner) exportState(w *runner.Work, id llama.SeqId, from, to int) error {
	scratch := llama.SeqId(r.opt.Sequences)
	if err := llama.MemorySeqCp(r.memory, id, scratch, llama.Pos(from), llama.Pos(to)); err != nil {
		return err
	}
	size := r.rows.size(from, to)
	if cap(r.state) < size {
		r.state = make([]byte, size)
	}
	r.state = r.state[:size]
	n := llama.StateSeqGetDataExt(r.ctx, r.state, scratch, 0)
	_, _ = llama.MemorySeqRm(r.memory, scratch, -1, -1)
	if n != uint64(size) {
		return fmt.Errorf("%w: %d bytes of %d", errExport, n, size)
	}
	return r.rows.scatter(r.state, w.Tables, from, to)
}
