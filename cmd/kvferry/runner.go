package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"kvferry/config"
	"kvferry/node"
	"kvferry/runner/llamacpp"
)

// llamaFlags choose what runs a model's file, and how llama.cpp does.
func llamaFlags(f *pflag.FlagSet, o *config.Overrides) {
	d := config.Default().ContextServers
	stringFlag(f, &o.Engine, "engine", *d.Engine, "what runs a GGUF file: reference (in Go), llamacpp, or auto, which is llamacpp, where it is installed, for weights of four bits, large models and what reference cannot load")
	stringFlag(f, &o.Requantize, "requantize", *d.Requantize, "type of the weights, q4_0, that llama.cpp makes of the file at the first start, beside it")
	stringFlag(f, &o.LlamaLib, "llama-lib", *d.Llama.LlamaLib, "folder of llama.cpp's shared libraries, "+llamacpp.Version+"; auto is $"+llamacpp.Variable+", or a standard place")
	stringFlag(f, &o.Device, "device", *d.Llama.Device, "what llama.cpp computes on: cpu, cuda, metal, vulkan, auto, or a device's name (see kvferry doctor)")
	intFlag(f, &o.Threads, "threads", *d.Llama.Threads, "threads that llama.cpp computes with")
	intFlag(f, &o.Context, "context", *d.Llama.Context, "most tokens of a sequence with llama.cpp (default the model's, at most 8192)")
}

// llamaArgs writes what llamaFlags reads.
func llamaArgs(cfg node.EngineConfig) []string {
	return []string{
		"--engine=" + cfg.Runner,
		"--requantize=" + cfg.Requantize,
		"--llama-lib=" + cfg.Llama.Library,
		"--device=" + cfg.Llama.Device,
		fmt.Sprintf("--threads=%d", cfg.Llama.Threads),
		fmt.Sprintf("--context=%d", cfg.Llama.Context),
	}
}
