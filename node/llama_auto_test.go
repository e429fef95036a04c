//go:build linux && amd64 && llamacpp

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvferry/runner/gguf"
	"kvferry/runner/llamacpp"
	"kvferry/runner/reference/reftest"
)

// TestAuto: of the engines that could run a file, auto takes llama.cpp for weights of four bits if
// it is there, the reference runner for what it alone can do, and for the rest, and the other one
// where the first fails. Which it was shows in the model's hash: llama.cpp's names it.
//
// req: SERVE-05
func TestAuto(t *testing.T) {
	lib := os.Getenv(llamacpp.Variable)
	if lib == "" {
		t.Skip(llamacpp.Variable + " is not set: runner/reference/testdata/fetch-llama.sh fetches llama.cpp")
	}
	wrong := t.TempDir() // libraries that are none
	for _, name := range []string{"libggml-base.so", "libggml.so", "libllama.so"} {
		if err := os.WriteFile(filepath.Join(wrong, name), []byte("no library"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string, kind gguf.Type) string {
		path := filepath.Join(t.TempDir(), name+".gguf")
		model := reftest.Model(reftest.ModelOptions{Heads: 2, HeadDim: 32, Type: kind})
		if err := os.WriteFile(path, model, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	q40, q41, q8, f32 := file("q40", gguf.Q4_0), file("q41", gguf.Q4_1), file("q80", gguf.Q8_0), file("f32", gguf.F32)
	for _, c := range []struct {
		name, model string
		change      func(*EngineConfig)
		llama       bool
	}{
		{"Q4_0", q40, nil, true},
		{"Q4_1", q41, nil, true},
		{"Q8_0", q8, nil, false},
		{"F32", f32, nil, false},
		{"no library", q41, func(c *EngineConfig) { c.Llama.Library = t.TempDir() }, false},
		{"another library", q41, func(c *EngineConfig) { c.Llama.Library = wrong }, false},
		{"two ranks", q41, func(c *EngineConfig) { c.TensorParallel = 2 }, false},
		{"told reference", q41, func(c *EngineConfig) { c.Runner = ReferenceRunner }, false},
		{"told llamacpp", f32, func(c *EngineConfig) { c.Runner = LlamaRunner }, true},
		{"q8_0 KV", f32, func(c *EngineConfig) { c.KVDType = "q8_0" }, true},
	} {
		cfg := DefaultEngineConfig()
		cfg.Model, cfg.Llama.Library, cfg.Llama.Context = c.model, lib, 256
		if c.change != nil {
			c.change(&cfg)
		}
		r, err := openRunner(cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if hash := r.Model().Hash; strings.Contains(hash, "llama.cpp") != c.llama {
			t.Errorf("%s: it is run by what has the hash %q", c.name, hash)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
