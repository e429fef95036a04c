//go:build linux && amd64 && llamacpp

package node_test

import (
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/llamacpp"
)

// lanes are prompts that are computed together, with what follows each.
type lanes struct {
	tokens  [][]int32 // prompt and answer
	prompts []int     // lengths
	tables  [][]kvcache.BlockTable
	blocks  int // of all of them
}

const (
	laneBlock  = 16 // tokens
	laneAnswer = 12
)

// newLanes gives each text its blocks, one lane's behind the other's.
func newLanes(tok runner.Tokenizer, texts []string) *lanes {
	l := &lanes{}
	for _, text := range texts {
		t := tok.Encode(text)
		var table kvcache.BlockTable
		for range (len(t) + laneAnswer - 1 + laneBlock) / laneBlock {
			table.Blocks = append(table.Blocks, kvcache.BlockID(l.blocks))
			l.blocks++
		}
		l.tokens, l.prompts, l.tables = append(l.tokens, t), append(l.prompts, len(t)), append(l.tables, []kvcache.BlockTable{table})
	}
	return l
}

// llamaRunner is a runner with a pool for the lanes, which is given too.
func llamaRunner(t *testing.T, model string) *llamacpp.Runner {
	t.Helper()
	r, err := llamacpp.Load("m", model, llamacpp.Options{BlockTokens: laneBlock, KV: kvcache.F16, Context: 2048, Sequences: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func attach(t *testing.T, r *llamacpp.Runner, l *lanes) []byte {
	t.Helper()
	pool := make([]byte, l.blocks*r.Layout().BlockBytes(0))
	if err := r.Attach([][]byte{pool}); err != nil {
		t.Fatal(err)
	}
	return pool
}

// logits are what each lane's last prompt token gave, and then each token of its answer.
type logits [][][]float32

// batching is a way to compute lanes: so many at a time, in chunks of so many tokens.
type batching struct{ together, chunk int }

// compute has the prompts computed by p and the answers decoded by d, with carry in between.
func (r batching) compute(t *testing.T, p, d *llamacpp.Runner, l *lanes, carry func()) logits {
	t.Helper()
	out := make(logits, len(l.tokens))
	for first := 0; first < len(l.tokens); first += r.together {
		some := make([]int, 0, r.together)
		for i := first; i < min(first+r.together, len(l.tokens)); i++ {
			some = append(some, i)
		}
		r.prefill(t, p, l, some, out)
		carry()
		for at := range laneAnswer - 1 {
			var batch []runner.Work
			for _, i := range some {
				pos := l.prompts[i] + at
				if len(l.tokens[i]) == pos { // the first run draws the answers
					l.tokens[i] = append(l.tokens[i], likeliest(out[i][at]))
				}
				batch = append(batch, l.work(i, pos, pos+1, d.Model().Vocab, out))
			}
			forward(t, d, batch)
		}
	}
	return out
}

func (r batching) prefill(t *testing.T, p *llamacpp.Runner, l *lanes, some []int, out logits) {
	t.Helper()
	for at := 0; ; at += r.chunk {
		var batch []runner.Work
		for _, i := range some {
			if at < l.prompts[i] {
				batch = append(batch, l.work(i, at, min(at+r.chunk, l.prompts[i]), p.Model().Vocab, out))
			}
		}
		if len(batch) == 0 {
			return
		}
		forward(t, p, batch)
	}
}

// work is lane i's tokens [from,to). It asks for logits from the last prompt token on.
func (l *lanes) work(i, from, to, vocab int, out logits) runner.Work {
	w := runner.Work{Sequence: string(rune('a' + i)), Tokens: l.tokens[i][from:to], Start: from, Tables: l.tables[i]}
	if to >= l.prompts[i] {
		w.Logits = make([]float32, vocab)
		out[i] = append(out[i], w.Logits)
	}
	return w
}

func forward(t *testing.T, r *llamacpp.Runner, batch []runner.Work) {
	t.Helper()
	if err := r.Forward(batch); err != nil {
		t.Fatal(err)
	}
}

func likeliest(logits []float32) int32 {
	best := 0
	for v, x := range logits {
		if x > logits[best] {
			best = v
		}
	}
	return int32(best)
}

// apart is how far logits are apart at most.
func (a logits) apart(b logits) float32 {
	worst := float32(0)
	for i := range a {
		for at := range a[i] {
			for v, x := range a[i][at] {
				worst = max(worst, x-b[i][at][v], b[i][at][v]-x)
			}
		}
	}
	return worst
}

// TestRealModelBatching: eight prompts whose KV is computed together on one runner and carried to
// another one, which writes the answers together, have logits that are no further from those of one
// runner that does all of it than those of such runners are from each other where they batch the
// same prompts differently.
//
// req: SERVE-05
func TestRealModelBatching(t *testing.T) {
	model := real(t)
	needLlama(t)
	p, d := llamaRunner(t, model), llamaRunner(t, model)
	l := newLanes(p.Tokenizer(), stories(8, 150))
	pools := [][]byte{attach(t, p, l), attach(t, d, l)}
	nothing := func() {}
	carry := func() { copy(pools[1], pools[0]) }

	alone := batching{1, 512}.compute(t, p, p, l, nothing)
	eight := batching{8, 60}.compute(t, p, p, l, nothing)
	three := batching{3, 100}.compute(t, p, p, l, nothing)
	clear(pools[0])
	split := batching{8, 60}.compute(t, p, d, l, carry)
	aggregated := max(alone.apart(eight), alone.apart(three), eight.apart(three))
	t.Logf("logits of aggregated runs that batch differently are up to %.3g apart (%.3g, %.3g, %.3g)", aggregated,
		alone.apart(eight), alone.apart(three), eight.apart(three))
	t.Logf("logits of prefill and decode apart are up to %.3g from those of the run that batches alike, and %.3g and %.3g from the others",
		split.apart(eight), split.apart(alone), split.apart(three))
	if aggregated == 0 {
		t.Error("batching makes no difference: this test can see nothing")
	}
	if got := split.apart(eight); got > aggregated {
		t.Errorf("prefill and decode apart differ by %g from the aggregated run, and such runs by %g", got, aggregated)
	}
	// Another prompt's KV would be another matter altogether.
	if other := (logits{split[0]}).apart(logits{split[1]}); other < 10*aggregated {
		t.Errorf("the logits of two prompts are only %g apart", other)
	}
}
