package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
	"kvferry/runner/reference"
)

// openRunner loads the model that a configuration names.
func openRunner(c EngineConfig) (runner.Runner, error) {
	dtype, err := kvcache.ParseDType(c.KVDType)
	if err != nil {
		return nil, err
	}
	opt := reference.Options{BlockTokens: c.BlockTokens, KV: dtype}
	if c.Model == EmbeddedModel {
		return reference.Load(models.TinyName, models.Tiny, opt)
	}
	file, err := os.ReadFile(c.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(c.Model), filepath.Ext(c.Model))
	return reference.Load(name, file, opt)
}
