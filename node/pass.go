package node

import (
	"context"
	"time"

	"kvferry/engine"
	"kvferry/runner"
)

// computing runs forward passes, one at a time, and draws the tokens that they ask for.
func (l *loop) computing(ctx context.Context) {
	var logits [][]float32
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-l.passes:
			began := time.Now()
			res := l.compute(c, &logits)
			l.metrics.Pass(time.Since(began).Seconds())
			select {
			case l.results <- res:
			case <-ctx.Done():
				return
			}
		}
	}
}

// compute runs one pass. logits are kept from pass to pass, one for each token to draw.
func (l *loop) compute(c engine.Compute, logits *[][]float32) engine.Computed {
	batch := make([]runner.Work, len(c.Batch))
	var specs []engine.SampleSpec
	l.written.begin(c)
	for i, w := range c.Batch {
		l.lists.copy(w.Copies)
		batch[i] = runner.Work{Sequence: w.Request, Tokens: w.Tokens, Start: w.Start, Tables: w.Tables}
		if w.Layers {
			batch[i].Written = func(through int) { l.written.note(i, through) }
		}
		if w.Sample == nil {
			continue
		}
		if len(*logits) == len(specs) {
			*logits = append(*logits, make([]float32, l.run.Model().Vocab))
		}
		batch[i].Logits = (*logits)[len(specs)]
		specs = append(specs, *w.Sample)
	}
	if err := l.run.Forward(batch); err != nil {
		return engine.Computed{Err: err}
	}
	out := make([]engine.Sampled, len(specs))
	for i, s := range specs {
		out[i] = engine.Sample((*logits)[i], s.Sampling, s.Position, s.Logprobs)
	}
	return engine.Computed{Results: out}
}
