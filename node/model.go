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
	"kvferry/runner/reference"
)

// openRunner loads the model that a configuration names.
func openRunner(c EngineConfig) (runner.Runner, error) {
	dtype, err := kvcache.ParseDType(c.KVDType)
	if err != nil {
		return nil, err
	}
	if name, ok := strings.CutPrefix(c.Model, emulated.Prefix); ok {
		if p := c.parallel(); p.Ranks() > 1 {
			return nil, fmt.Errorf("tensor_parallel_size %d, pipeline_parallel_size %d: an emulated model is one rank", p.Tensor, p.Pipeline)
		}
		return opened(emulated.Open(name, emulated.Options{BlockTokens: c.BlockTokens, KV: dtype}))
	}
	opt := reference.Options{BlockTokens: c.BlockTokens, KV: dtype, Parallel: c.parallel()}
	if c.Model == EmbeddedModel {
		return opened(reference.Load(models.TinyName, models.Tiny, opt))
	}
	file, err := os.ReadFile(c.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(c.Model), filepath.Ext(c.Model))
	return opened(reference.Load(name, file, opt))
}

// opened makes nothing at all of a runner that failed to load: a nil pointer in an interface
// would look like a runner to whoever closes it.
func opened[R runner.Runner](r R, err error) (runner.Runner, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
