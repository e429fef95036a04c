package emulated

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"kvferry/kvcache"
	"kvferry/runner"
)

// Options choose how the KV cache is stored.
type Options struct {
	// BlockTokens is how many tokens a block holds.
	BlockTokens int
	// KV is the stored type of keys and values, F16 or F32.
	KV kvcache.DType
}

// Runner emulates one model on one device. Its methods are for one goroutine at a time.
type Runner struct {
	spec
	model  runner.Model
	layout kvcache.Layout
	root   link // before the first token
	groups []group
	passes uint64
}

var _ runner.Runner = (*Runner)(nil)

// Open makes a runner of NAME[@DEVICE][,context=N]: a model, what it runs on (the model's
// usual device if left out; several as in 4xh100) and its longest sequence in tokens (8192 if
// left out).
func Open(name string, opt Options) (*Runner, error) {
	s, err := parse(name)
	if err != nil {
		return nil, fmt.Errorf("emulated model: %w", err)
	}
	if opt.KV == kvcache.Q8_0 {
		return nil, fmt.Errorf("kv-dtype %s: an emulated model has f16 or f32; only llama.cpp stores %s", opt.KV, opt.KV)
	}
	r := &Runner{spec: s}
	r.layout = kvcache.Layout{
		BlockTokens: opt.BlockTokens, KVHeads: s.m.kvHeads, HeadDim: s.m.headDim, DType: opt.KV, Groups: s.m.groups(),
	}
	if err := r.layout.Validate(); err != nil {
		return nil, err
	}
	r.model = runner.Model{
		Name: Prefix + s.name, Hash: s.m.hash(s.name), Vocab: vocab, Context: s.context,
		BOS: bos, AddBOS: true, Ends: []int32{eos},
	}
	sum, err := hex.DecodeString(r.model.Hash)
	if err != nil {
		return nil, err
	}
	r.root = link(binary.LittleEndian.Uint64(sum))
	return r, nil
}

// Model describes the model.
func (r *Runner) Model() runner.Model { return r.model }

// Layout is how the KV cache is laid out.
func (r *Runner) Layout() kvcache.Layout { return r.layout }

// Tokenizer makes a token of each byte.
func (r *Runner) Tokenizer() runner.Tokenizer { return tokenizer{} }

// Attach hands over the pools, one a layer group, each a whole number of blocks long.
func (r *Runner) Attach(pools [][]byte) error {
	if len(pools) != len(r.layout.Groups) {
		return fmt.Errorf("%d pools for %d layer groups", len(pools), len(r.layout.Groups))
	}
	var groups []group
	for g, pool := range pools {
		size := r.layout.BlockBytes(g)
		if len(pool) == 0 || len(pool)%size != 0 {
			return fmt.Errorf("pool of layer group %d: %d bytes are not a whole number of blocks of %d", g, len(pool), size)
		}
		groups = append(groups, group{
			pattern: newPattern(r.layout, g), known: newKnown(len(pool)/size, r.layout.BlockTokens), pool: pool,
		})
	}
	r.groups = groups
	return nil
}

// Forward verifies what the batch sees, writes its KV, fills in the logits, and returns when
// the device would have done it. It fails as a whole with a MismatchError.
func (r *Runner) Forward(batch []runner.Work) error {
	began := time.Now()
	r.passes++
	for i := range batch {
		w := &batch[i]
		if err := r.check(w); err != nil {
			return err
		}
		last, err := r.verify(w)
		if err != nil {
			return err
		}
		for g := range r.groups {
			r.groups[g].write(w, last)
		}
		for k, token := range w.Tokens {
			last = last.next(token, w.Start+k)
		}
		if w.Logits != nil {
			last.logits(w.Logits)
		}
	}
	r.wait(began, r.d.takes(r.costs(batch)), batch)
	return nil
}

// wait lets the rest of a pass's time go by. Each layer takes an equal share of it, and is told of
// when the next one begins; the last is not, for the pass ends with it.
func (r *Runner) wait(began time.Time, takes time.Duration, batch []runner.Work) {
	layers := 0
	for _, g := range r.layout.Groups {
		layers += len(g.Layers)
	}
	told := slices.DeleteFunc(slices.Clone(batch), func(w runner.Work) bool { return w.Written == nil })
	if len(told) > 0 {
		for through := 1; through < layers; through++ {
			time.Sleep(takes*time.Duration(through)/time.Duration(layers) - time.Since(began))
			for _, w := range told {
				w.Written(through)
			}
		}
	}
	time.Sleep(takes - time.Since(began))
}

// check refuses work that no engine gives.
func (r *Runner) check(w *runner.Work) error {
	switch {
	case r.groups == nil:
		return fmt.Errorf("no pools are attached")
	case len(w.Tables) != len(r.groups):
		return fmt.Errorf("%d block tables for %d layer groups", len(w.Tables), len(r.groups))
	case len(w.Tokens) == 0 || w.Start < 0 || w.Start+len(w.Tokens) > r.context:
		return fmt.Errorf("%d tokens at position %d in a context of %d", len(w.Tokens), w.Start, r.context)
	case w.Logits != nil && len(w.Logits) != vocab:
		return fmt.Errorf("room for %d logits: want %d", len(w.Logits), vocab)
	}
	for _, token := range w.Tokens {
		if token < 0 || token >= vocab {
			return fmt.Errorf("token %d is not in a vocabulary of %d", token, vocab)
		}
	}
	for g := range r.groups {
		if err := r.groups[g].inside(w.Tables[g], w.Start, w.Start+len(w.Tokens)); err != nil {
			return err
		}
	}
	return nil
}

// write fills the rows of w's tokens, block by block in the order of memory.
func (g *group) write(w *runner.Work, before link) {
	tpb := g.layout.BlockTokens
	end := w.Start + len(w.Tokens)
	for pos := w.Start; pos < end; {
		s := span{number: pos / tpb, from: pos % tpb, before: before}
		s.to = min(end-s.number*tpb, tpb)
		block := int(w.Tables[g.pattern.group].Block(s.number))
		links, tokens := g.at(block)
		for i := s.from; i < s.to; i++ {
			token := w.Tokens[pos-w.Start]
			before = before.next(token, pos)
			links[i], tokens[i] = before, token
			pos++
		}
		g.written(block, s)
		mem := g.block(block)
		for run, key := range g.keys {
			at := g.run(run)
			for i := s.from; i < s.to; i++ {
				fill(mem[at+i*g.size:at+(i+1)*g.size], links[i], tokens[i], key)
			}
		}
	}
}

// written remembers rows that were just written. They begin the block, or go on from rows
// that were verified in the same pass.
func (g *group) written(block int, s span) {
	b := &g.blocks[block]
	if s.from == 0 {
		*b = knownBlock{before: s.before}
	}
	b.to = s.to
}

// Close lets go of the pools.
func (r *Runner) Close() error {
	r.groups = nil
	return nil
}
