package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"kvferry/node"
)

const modelUsage = "`embedded`, the path of a GGUF file, or emulated:NAME[@DEVICE][,context=N]"

// modelFlags are those of every command that runs a model, or has one run.
func modelFlags(f *pflag.FlagSet, cfg *node.EngineConfig) {
	f.StringVar(&cfg.Model, "model", cfg.Model, modelUsage)
	f.IntVar(&cfg.BlockTokens, "block-tokens", cfg.BlockTokens, "tokens of a KV block; equal on all engines")
	f.StringVar(&cfg.KVDType, "kv-dtype", cfg.KVDType, "type of the KV cache, f16 or f32; equal on all engines")
	f.IntVar(&cfg.KVBlocks, "kv-blocks", cfg.KVBlocks, "blocks of each layer group's pool (default four whole contexts)")
	f.BoolVar(&cfg.ChunkedPrefill, "enable-chunked-prefill", cfg.ChunkedPrefill, "cut prompts into chunks")
	f.IntVar(&cfg.ChunkTokens, "chunk-tokens", cfg.ChunkTokens, "most prompt tokens of one forward pass")
	f.IntVar(&cfg.MaxSeqs, "max-seqs", cfg.MaxSeqs, "requests that compute at once")
	f.IntVar(&cfg.MaxWaiting, "max-waiting", cfg.MaxWaiting, "requests that may wait for that; more get 503")
	f.DurationVar(&cfg.TransferTimeout, "kv-transfer-timeout", cfg.TransferTimeout, "how long a KV transfer may stand still")
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", cfg.DrainTimeout, "how long requests may go on after the order to stop")
}

func pipelinedFlag(f *pflag.FlagSet, cfg *node.EngineConfig, def bool) {
	f.BoolVar(&cfg.Pipelined, "pipelined", def, "send each chunk's KV while the next one computes")
}

// engineArgs writes a configuration as the flags of an engine's command.
func engineArgs(cfg node.EngineConfig, pipelined bool) []string {
	args := []string{
		"--model=" + cfg.Model,
		fmt.Sprintf("--block-tokens=%d", cfg.BlockTokens),
		"--kv-dtype=" + cfg.KVDType,
		fmt.Sprintf("--kv-blocks=%d", cfg.KVBlocks),
		fmt.Sprintf("--enable-chunked-prefill=%t", cfg.ChunkedPrefill),
		fmt.Sprintf("--chunk-tokens=%d", cfg.ChunkTokens),
		fmt.Sprintf("--max-seqs=%d", cfg.MaxSeqs),
		fmt.Sprintf("--max-waiting=%d", cfg.MaxWaiting),
		fmt.Sprintf("--kv-transfer-timeout=%s", cfg.TransferTimeout),
		fmt.Sprintf("--drain-timeout=%s", cfg.DrainTimeout),
	}
	if pipelined {
		args = append(args, fmt.Sprintf("--pipelined=%t", cfg.Pipelined))
	}
	return args
}

// logFlags choose what is logged, on standard error. Prompts never are.
type logFlags struct{ level string }

func (l *logFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "warn", "debug, info, warn or error")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, fmt.Errorf("log-level %q: want debug, info, warn or error", l.level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
}
