//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"errors"
	"fmt"
	"slices"

	"kvferry/runner"
)

// The rows that a pass computes go from llama.cpp's own memory to the blocks, a layer as soon as it has
// them where a work wants to be told. The state API would write them to a buffer first, all layers
// together and after the pass.

// errTold is what ends a pass of which layers were told before a surprise: they may have left, and
// what was sent cannot be called back.
var errTold = errors.New("llama.cpp computed another way than when it was tried, and layers were given away already")

// untap goes over to the state API for good.
func (r *Runner) untap(why error) {
	r.tapping = false
	r.opt.Log.Warn("llama.cpp: KV goes by its states, not straight from its memory", "model", r.model.Name, "reason", why)
}

// begin opens the tap for a llama.cpp batch of these spans.
func (r *Runner) begin(batch []runner.Work, spans []span) {
	if !r.tapping {
		return
	}
	ends := slices.ContainsFunc(spans, func(s span) bool { return s.told(batch) })
	var written func(int)
	if ends || r.tap.learn {
		written = func(through int) { r.layers(batch, spans, through) }
	}
	r.taken = 0
	r.tap.start(int(r.batch.NTokens), written)
}

// told says whether a span is the last of a work that wants to be told of its layers.
func (s span) told(batch []runner.Work) bool {
	w := &batch[s.work]
	return w.Written != nil && s.to == w.Start+len(w.Tokens)
}

// layers takes the rows of the layers below through and tells of them.
func (r *Runner) layers(batch []runner.Work, spans []span, through int) {
	r.take(batch, spans, through)
	for _, s := range spans {
		if s.told(batch) {
			batch[s.work].Written(through)
		}
	}
}

// take writes the rows of the layers below through into the blocks, but for those it has taken.
func (r *Runner) take(batch []runner.Work, spans []span, through int) {
	for ; r.taken < through; r.taken++ {
		p := r.places[r.taken]
		cells := r.tap.cells[p.group]
		for _, s := range spans {
			n := s.to - s.from
			for kv := range 2 {
				r.rows.put(p, kv, batch[s.work].Tables[p.group], s.from, n, func(i int) []byte {
					return r.tap.at(r.taken, kv, int(cells[i]))
				})
			}
			cells = cells[n:]
		}
	}
}

// finish ends the tap for a batch that was computed, and says whether all its rows are in the blocks.
func (r *Runner) finish(batch []runner.Work, spans []span) (bool, error) {
	if !r.tapping {
		return false, nil
	}
	if err := r.tap.stop(); err != nil {
		r.untap(err)
		if r.taken > 0 && slices.ContainsFunc(spans, func(s span) bool { return s.told(batch) }) {
			return false, fmt.Errorf("%w: %w", errTold, err)
		}
		return false, nil
	}
	r.take(batch, spans, len(r.places))
	return true, nil
}
