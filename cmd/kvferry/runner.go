package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"kvferry/node"
	"kvferry/runner/llamacpp"
)

// runnerFlags choose what runs a model's file.
type runnerFlags struct {
	runner string
	llama  node.LlamaConfig
}

func (r *runnerFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.runner, "engine", node.AutoRunner, "what runs a GGUF file: reference (in Go), llamacpp, or auto, which is reference for what that can load")
	f.StringVar(&r.llama.Library, "llama-lib", "", "folder of llama.cpp's shared libraries, "+llamacpp.Version+" (default $"+llamacpp.Variable+", or a standard place)")
	f.IntVar(&r.llama.Threads, "threads", 1, "threads that llama.cpp computes with")
	f.IntVar(&r.llama.Context, "context", 0, "most tokens of a sequence with llama.cpp (default the model's, at most 8192)")
}

func (r *runnerFlags) apply(cfg *node.EngineConfig) { cfg.Runner, cfg.Llama = r.runner, r.llama }

// runnerArgs writes what add reads.
func runnerArgs(cfg node.EngineConfig) []string {
	return []string{
		"--engine=" + cfg.Runner,
		"--llama-lib=" + cfg.Llama.Library,
		fmt.Sprintf("--threads=%d", cfg.Llama.Threads),
		fmt.Sprintf("--context=%d", cfg.Llama.Context),
	}
}
