package reference

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
)

// Options choose how the KV cache is stored and the model cut.
type Options struct {
	// BlockTokens is how many tokens a block holds.
	BlockTokens int
	// KV is the stored type of keys and values, F16 or F32.
	KV kvcache.DType
	// Parallel cuts the model into ranks, all of this process. Tensor is 1, 2 or 4 and
	// divides the query heads; it divides the KV heads or they it. The zero value is one rank.
	Parallel kvcache.Parallel
}

// Runner runs one model. Its methods are for one goroutine at a time.
type Runner struct {
	cfg    *config
	w      *weights
	model  runner.Model
	layout kvcache.Layout
	// place gives each layer's group and its number in the group.
	place [][2]int
	tok   *bpe.Tokenizer
	ranks []rank
	// stages gives for each layer the ranks of its stage, by tensor rank.
	stages [][]rank
	// written marks the blocks of each group that the present batch writes, by pass number.
	// It is nil while there are no pools.
	written [][]uint64
	passes  uint64
	pass    pass
	crew    *crew
	closed  bool
}

var _ runner.Runner = (*Runner)(nil)

// Load makes a runner of a GGUF file held in memory; the file is not needed afterwards.
// It uses as many threads as GOMAXPROCS says now. Errors name the key or tensor.
func Load(name string, file []byte, opt Options) (*Runner, error) {
	r, err := load(name, file, opt)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	return r, nil
}

func load(name string, file []byte, opt Options) (*Runner, error) {
	f, err := gguf.Parse(file)
	if err != nil {
		return nil, err
	}
	r := &Runner{}
	if r.cfg, err = readConfig(f); err != nil {
		return nil, err
	}
	if opt.KV == kvcache.Q8_0 {
		return nil, fmt.Errorf("kv-dtype %s: the reference engine stores f16 or f32; only llama.cpp stores %s", opt.KV, opt.KV)
	}
	r.layout = kvcache.Layout{BlockTokens: opt.BlockTokens, KVHeads: r.cfg.kvHeads, HeadDim: r.cfg.headDim, DType: opt.KV}
	r.layout.Groups, r.place = r.cfg.groups()
	if err := r.layout.Validate(); err != nil {
		return nil, err
	}
	shares, err := r.cut(opt.Parallel)
	if err != nil {
		return nil, err
	}
	if r.tok, err = bpe.FromGGUF(f); err != nil {
		return nil, err
	}
	if r.w, err = loadWeights(f, r.cfg, shares); err != nil {
		return nil, err
	}
	if r.model, err = describe(f, r.w.vocab, r.cfg.context); err != nil {
		return nil, err
	}
	hash := sha256.Sum256(file)
	r.model.Name, r.model.Hash = name, hex.EncodeToString(hash[:])
	r.crew = newCrew(runtime.GOMAXPROCS(0))
	r.pass.init(r)
	return r, nil
}

// Model describes the model.
func (r *Runner) Model() runner.Model { return r.model }

// Layout is how the whole model's KV cache is laid out; each rank has its shard of it.
func (r *Runner) Layout() kvcache.Layout { return r.layout }

// Tokenizer is the model's tokenizer, safe for concurrent use.
func (r *Runner) Tokenizer() runner.Tokenizer { return r.tok }
