//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"fmt"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/kvcache"
	"kvferry/runner"
)

// Runner runs one model. Its methods are for one goroutine at a time, but for its tokenizer.
type Runner struct {
	opt    Options
	model  runner.Model
	rows   rows
	tok    *tokenizer
	thread *thread
	closed bool

	// The rest is used on the thread only.
	weights llama.Model
	devices []llama.GGMLBackendDevice // that it computes on, and the end of the list
	ctx     llama.Context
	memory  llama.Memory
	batch   llama.Batch
	held    map[string]*held
	free    []llama.SeqId
	state   []byte // scratch for states
	row     []byte // scratch for a row
	tap     *tap   // nil without zero copy
	tapless error  // why it is nil
	tapping bool   // rows are taken by the tap
	places  []place
	taken   int // layers of the batch whose rows are in the blocks
}

var _ runner.Runner = (*Runner)(nil)

// batchTokens is how many tokens llama.cpp computes at once.
const batchTokens = 512

// Load opens a GGUF file with llama.cpp. Errors say what to install, or which model is not
// supported and why.
func Load(name, path string, opt Options) (*Runner, error) {
	if opt.Sequences > mostSequences {
		return nil, fmt.Errorf("max_batch_size: %d: llama.cpp computes at most %d sequences at once", opt.Sequences, mostSequences)
	}
	dir, err := FindLibrary(opt.Library)
	if err == nil {
		err = loadLibrary(dir)
	}
	if err != nil {
		return nil, err
	}
	sum, err := fileHash(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	r := &Runner{opt: opt.withDefaults(), thread: newThread(), held: map[string]*held{}}
	r.model.Name = name
	// Everything that decides the bits of the KV is in it, so that a peer that differs in any
	// of it is refused, and the refusal shows in what.
	r.model.Hash = fmt.Sprintf("llama.cpp %s, flash attention on, K %s, V %s, file %s", Version, opt.KV, opt.KV, sum)
	if err := r.thread.do(func() error { return r.open(path) }); err != nil {
		r.Close()
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	return r, nil
}

func (r *Runner) open(path string) error {
	params := llama.ModelDefaultParams()
	if err := r.place(&params); err != nil {
		return err
	}
	var err error
	if r.weights, err = llama.ModelLoadFromFile(path, params); err != nil {
		return fmt.Errorf("llama.cpp: %w", err)
	}
	if err := r.supported(); err != nil {
		return err
	}
	trained := int(llama.ModelNCtxTrain(r.weights))
	r.model.Context = min(trained, defaultContext)
	if r.opt.Context > trained {
		return fmt.Errorf("context of %d tokens: the model has %d", r.opt.Context, trained)
	} else if r.opt.Context > 0 {
		r.model.Context = r.opt.Context
	}
	if err := r.openContext(); err != nil {
		return err
	}
	vocab := llama.ModelGetVocab(r.weights)
	r.tok = newTokenizer(vocab)
	r.model.Vocab, r.model.Chat = len(r.tok.bytes), chatOf(r.weights, vocab)
	r.model.BOS, r.model.AddBOS = max(0, int32(llama.VocabBOS(vocab))), llama.VocabGetAddBOS(vocab)
	for id := range r.model.Vocab {
		if llama.VocabIsEOG(vocab, llama.Token(id)) {
			r.model.Ends = append(r.model.Ends, int32(id))
		}
	}
	if err := r.probe(); err != nil {
		return err
	}
	r.openTap()
	return nil
}

// chunked is the architecture whose layers without the whole context see a chunk, and no window.
const chunked = "llama4"

// supported refuses what has no KV cache of one row a token and layer.
func (r *Runner) supported() error {
	arch, _ := llama.ModelMetaValStr(r.weights, "general.architecture")
	refuse := func(what string) error {
		return fmt.Errorf("architecture %q %s, which is not supported with llama.cpp yet", arch, what)
	}
	switch {
	case arch == chunked:
		return refuse("has layers of chunked attention")
	case llama.ModelIsRecurrent(r.weights), llama.ModelIsHybrid(r.weights):
		return refuse("has recurrent layers")
	case llama.ModelIsDiffusion(r.weights):
		return refuse("writes by diffusion")
	case llama.ModelHasEncoder(r.weights), !llama.ModelHasDecoder(r.weights):
		return refuse("has an encoder")
	}
	return nil
}

// kinds are llama.cpp's numbers of the stored types.
var kinds = map[kvcache.DType]llama.GGMLType{
	kvcache.F16: llama.GGMLTypeF16, kvcache.F32: llama.GGMLTypeF32, kvcache.Q8_0: llama.GGMLTypeQ8_0,
}

// openContext makes the context, of as many cells as a whole context has tokens.
func (r *Runner) openContext() error {
	p := llama.ContextDefaultParams()
	p.NCtx = uint32(r.model.Context)
	p.NBatch, p.NUbatch = batchTokens, batchTokens
	p.NSeqMax = uint32(r.opt.Sequences + 1)
	p.NThreads, p.NThreadsBatch = int32(r.opt.Threads), int32(r.opt.Threads)
	p.FlashAttentionType = llama.FlashAttentionTypeEnabled
	kind, ok := kinds[r.opt.KV]
	if !ok {
		return fmt.Errorf("kv-dtype %s: llama.cpp is not asked for it", r.opt.KV)
	}
	p.TypeK, p.TypeV = kind, kind
	// Window layers keep no more cells than their windows and a batch take.
	p.SwaFull = 0
	// A part of a sequence can be copied into another one only within one stream.
	p.KVUnified = 1
	if !r.opt.StateAPI {
		if r.tap, r.tapless = newTap(loaded.dir); r.tap != nil {
			p.CbEval, p.CbEvalUserData = gateEntry, r.tap.gate.data()
		}
	}
	var err error
	if r.ctx, err = llama.InitFromModel(r.weights, p); err != nil {
		return fmt.Errorf("llama.cpp: context of %d tokens with flash attention and %s KV: %w", r.model.Context, r.opt.KV, err)
	}
	if r.memory, err = llama.GetMemory(r.ctx); err != nil {
		return fmt.Errorf("llama.cpp: %w", err)
	}
	r.batch = llama.BatchInit(batchTokens, 0, 1)
	for id := range r.opt.Sequences {
		r.free = append(r.free, llama.SeqId(id))
	}
	return nil
}

// window is how many tokens the window layers see, 0 if there are none.
func (r *Runner) window() int {
	groups := r.rows.layout.Groups
	return groups[len(groups)-1].Window
}

// Model describes the model. Its Hash names llama.cpp's version and the KV's types, too.
func (r *Runner) Model() runner.Model { return r.model }

// Layout is how the KV cache is laid out: one group of the layers that see all tokens, and one of those
// with a window, if there are any.
func (r *Runner) Layout() kvcache.Layout { return r.rows.layout }

// Tokenizer is llama.cpp's, safe for concurrent use.
func (r *Runner) Tokenizer() runner.Tokenizer { return r.tok }

// Close frees what llama.cpp holds, and ends the thread.
func (r *Runner) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	if r.tok != nil {
		r.tok.close()
	}
	err := r.thread.do(func() error {
		if r.ctx != 0 {
			llama.BatchFree(r.batch)
			llama.Free(r.ctx)
		}
		if r.weights != 0 {
			llama.ModelFree(r.weights)
		}
		return nil
	})
	r.thread.end()
	r.rows.pools = nil
	return err
}
