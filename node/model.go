package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
	"kvferry/runner/emulated"
	"kvferry/runner/gguf"
	"kvferry/runner/llamacpp"
	"kvferry/runner/reference"
)

// openRunner loads the model that a configuration names.
func openRunner(c EngineConfig) (runner.Runner, error) {
	dtype, err := kvcache.ParseDType(c.KVDType)
	if err != nil {
		return nil, err
	}
	if c.Requantize != NoRequantize && !c.fromFile() {
		return nil, fmt.Errorf("requantize: %s is made of a GGUF file, which --model names, and not of the model %s", c.Requantize, c.Model)
	}
	if name, ok := strings.CutPrefix(c.Model, emulated.Prefix); ok {
		if p := c.parallel(); p.Ranks() > 1 {
			return nil, fmt.Errorf("tensor_parallel_size %d, pipeline_parallel_size %d: an emulated model is one rank", p.Tensor, p.Pipeline)
		}
		return opened(emulated.Open(name, emulated.Options{BlockTokens: c.BlockTokens, KV: dtype}))
	}
	switch {
	case c.Runner == LlamaRunner || c.wantsLlama():
		return openLlama(c, dtype)
	case c.Model == EmbeddedModel:
		return opened(reference.Load(models.TinyName, models.Tiny, c.referenceOptions(dtype)))
	case c.Runner == ReferenceRunner:
		return openReference(c, dtype)
	}
	return openBest(c, dtype)
}

// openBest is how AutoRunner decides. llama.cpp, where it is built in and its library is there, is
// tried first with a heavy file (reference.Heavy), and the reference runner with any other; what the
// first refuses, as llama.cpp does a model that is cut into ranks, the second may take.
func openBest(c EngineConfig, dtype kvcache.DType) (runner.Runner, error) {
	heavy, err := heavy(c.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if _, lacks := llamacpp.FindLibrary(c.Llama.library()); lacks != nil {
		r, err := openReference(c, dtype)
		if err != nil {
			return nil, fmt.Errorf("%w (%s could run other models: %w)", err, LlamaRunner, lacks)
		}
		return r, nil
	}
	names := [2]string{ReferenceRunner, LlamaRunner}
	opens := [2]func(EngineConfig, kvcache.DType) (runner.Runner, error){openReference, openLlama}
	first, second := 0, 1
	if heavy {
		first, second = second, first
	}
	r, failed := opens[first](c, dtype)
	if failed == nil {
		return r, nil
	}
	if r, err = opens[second](c, dtype); err != nil {
		return nil, fmt.Errorf("%s: %w; %s: %w", names[first], failed, names[second], err)
	}
	if c.Log != nil {
		c.Log.Warn("the model is run by the engine that is second best for it", "model", c.Model, "engine", names[second], "cause", failed)
	}
	return r, nil
}

// heavy looks at what a file says of itself. A file that cannot be understood is not heavy: what
// loads it says what is wrong.
func heavy(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	f, err := gguf.Read(file, info.Size())
	return err == nil && reference.Heavy(f), nil
}

func (c EngineConfig) referenceOptions(dtype kvcache.DType) reference.Options {
	return reference.Options{BlockTokens: c.BlockTokens, KV: dtype, Parallel: c.parallel()}
}

func openReference(c EngineConfig, dtype kvcache.DType) (runner.Runner, error) {
	file, err := os.ReadFile(c.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return opened(reference.Load(modelName(c.Model), file, c.referenceOptions(dtype)))
}

func openLlama(c EngineConfig, dtype kvcache.DType) (runner.Runner, error) {
	switch p := c.parallel(); {
	case p.Ranks() > 1:
		return nil, fmt.Errorf("tensor_parallel_size %d, pipeline_parallel_size %d: llama.cpp is one rank", p.Tensor, p.Pipeline)
	case c.Model == EmbeddedModel:
		return nil, fmt.Errorf("engine: %s runs a GGUF file, which --model names, and not the embedded model", LlamaRunner)
	}
	path, err := weights(c)
	if err != nil {
		return nil, err
	}
	opt := c.llamaOptions()
	opt.KV = dtype
	return opened(llamacpp.Load(modelName(c.Model), path, opt))
}

func (c EngineConfig) llamaOptions() llamacpp.Options {
	return llamacpp.Options{
		Library: c.Llama.library(), Device: c.Llama.Device, BlockTokens: c.BlockTokens,
		Context: c.Llama.Context, Sequences: c.MaxSeqs, Threads: c.Llama.Threads,
		Log: c.Log,
	}
}

// wantsLlama says that something is asked for which llama.cpp alone does.
func (c EngineConfig) wantsLlama() bool {
	return c.Requantize != NoRequantize || c.Llama.Device != CPU && c.Llama.Device != Auto
}

// fromFile says that the model is a file.
func (c EngineConfig) fromFile() bool {
	return c.Model != EmbeddedModel && !strings.HasPrefix(c.Model, emulated.Prefix)
}

// weights is the model's file, or the one that is to be made of it, which it then makes if it is
// not there.
func weights(c EngineConfig) (string, error) {
	if c.Requantize == NoRequantize {
		return c.Model, nil
	}
	return llamacpp.Requantize(c.Model, c.Requantize, c.llamaOptions(), func(to string) {
		if c.Log != nil {
			c.Log.Warn("weights are made once, which takes minutes for a large model", "type", c.Requantize, "of", c.Model, "file", to)
		}
	})
}

// Prepare makes the file that an engine would make when it starts, so that what starts several
// engines can wait for it as long as it takes.
func Prepare(c EngineConfig) error {
	if !c.fromFile() {
		return nil // refused, or nothing to do, when the engine starts
	}
	_, err := weights(c)
	return err
}

// library is the folder of the libraries, empty to look for them.
func (c LlamaConfig) library() string {
	if c.Library == Auto {
		return ""
	}
	return c.Library
}

// modelName is a file's name in the API.
func modelName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// opened makes nothing at all of a runner that failed to load: a nil pointer in an interface
// would look like a runner to whoever closes it.
func opened[R runner.Runner](r R, err error) (runner.Runner, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
