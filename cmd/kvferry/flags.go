package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"kvferry/agent/nixl"
	"kvferry/config"
	"kvferry/node"
)

const modelUsage = "`embedded`, the path of a GGUF file, or emulated:NAME[@DEVICE][,context=N]"

// said is a flag that leaves its place nil unless the command line has it, so that a file or
// the default speaks.
type said[T any] struct {
	into  **T
	parse func(string) (T, error)
	kind  string
	shown string // the default, for the help
}

// Set takes the flag's text.
func (s said[T]) Set(text string) error {
	v, err := s.parse(text)
	if err == nil {
		*s.into = &v
	}
	return err
}

// Type is the kind of value, for the help.
func (s said[T]) Type() string { return s.kind }

func (s said[T]) String() string { return s.shown }

func intFlag(f *pflag.FlagSet, into **int, name string, shown int, usage string) {
	f.Var(said[int]{into, whole, "int", strconv.Itoa(shown)}, name, usage)
}

func stringFlag(f *pflag.FlagSet, into **string, name, shown, usage string) {
	f.Var(said[string]{into, func(s string) (string, error) { return s, nil }, "string", shown}, name, usage)
}

func boolFlag(f *pflag.FlagSet, into **bool, name string, shown bool, usage string) {
	f.Var(said[bool]{into, strconv.ParseBool, "bool", strconv.FormatBool(shown)}, name, usage)
	f.Lookup(name).NoOptDefVal = "true"
}

func whole(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, errors.New("want a whole number")
	}
	return int(n), nil
}

// wholeMilliseconds reads a duration, which settings hold in milliseconds.
func wholeMilliseconds(s string) (int, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("want a duration, as 30s")
	}
	if d%time.Millisecond != 0 {
		return 0, errors.New("want whole milliseconds")
	}
	return int(d / time.Millisecond), nil
}

// duration reads a time, which settings hold in seconds.
func duration(s string) (config.Seconds, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("want a duration, as 30s")
	}
	return config.SecondsOf(d), nil
}

func durationFlag(f *pflag.FlagSet, into **config.Seconds, name string, shown config.Seconds, usage string) {
	f.Var(said[config.Seconds]{into, duration, "duration", shown.Duration().String()}, name, usage)
}

// listenAddress is host:port for two settings.
type listenAddress struct {
	o     *config.Overrides
	shown string
}

// Set takes the address apart.
func (l listenAddress) Set(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("want host:port")
	}
	n, err := whole(port)
	if err != nil {
		return errors.New("want a port's number behind the last colon")
	}
	l.o.Hostname, l.o.Port = &host, &n
	return nil
}

// Type is the kind of value, for the help.
func (l listenAddress) Type() string { return "string" }

func (l listenAddress) String() string { return l.shown }

// engineFlags are those of every command that runs a model, or has one run.
func engineFlags(f *pflag.FlagSet, o *config.Overrides) {
	d := config.Default().ContextServers
	stringFlag(f, &o.Model, "model", *d.Model, modelUsage)
	llamaFlags(f, o)
	intFlag(f, &o.BlockTokens, "block-tokens", *d.KVCache.TokensPerBlock, "tokens of a KV block; equal on all engines")
	stringFlag(f, &o.KVDType, "kv-dtype", *d.KVCache.DType, "type of the KV cache, f16, f32 or q8_0 (llama.cpp only); equal on all engines")
	intFlag(f, &o.KVBlocks, "kv-blocks", *d.KVCache.Blocks, "blocks of each layer group's pool (default four whole contexts)")
	stringFlag(f, &o.KVManager, "kv-manager", *d.KVCache.Manager, "reserve takes all blocks at admission; grow takes them as needed, and preempts")
	boolFlag(f, &o.BlockReuse, "enable-block-reuse", *d.KVCache.EnableBlockReuse, "compute and send what prompts begin with once")
	boolFlag(f, &o.ChunkedPrefill, "enable-chunked-prefill", *d.EnableChunkedPrefill, "cut prompts into chunks")
	intFlag(f, &o.ChunkTokens, "chunk-tokens", *d.MaxNumTokens, "most prompt tokens of one forward pass")
	intFlag(f, &o.MaxSeqs, "max-seqs", *d.MaxBatchSize, "requests that compute at once")
	intFlag(f, &o.MaxWaiting, "max-waiting", *d.MaxQueueSize, "requests that may wait for that; more get 503")
	intFlag(f, &o.TensorParallel, "tensor-parallel", *d.TensorParallelSize, "ranks that share each layer: 1, 2 or 4")
	intFlag(f, &o.PipelineParallel, "pipeline-parallel", *d.PipelineParallelSize, "stages that share the layers: 1 or 2")
	boolFlag(f, &o.Checksum, "kv-checksum", *d.Transceiver.EnableChecksum, "compare each slice with what was sent before it is used")
	timeout := time.Duration(*d.Transceiver.KVTransferTimeoutMS) * time.Millisecond
	f.Var(said[int]{&o.TimeoutMS, wholeMilliseconds, "duration", timeout.String()}, "kv-transfer-timeout", "how long a KV transfer may stand still")
}

// agentFlags are those about what carries KV between engines.
func agentFlags(f *pflag.FlagSet, o *config.Overrides) {
	d := config.Default().ContextServers.Transceiver
	stringFlag(f, &o.Backend, "agent-backend", *d.Backend, "what carries KV: TCP, SHM between processes of one host, NIXL, or DEFAULT, which is SHM")
	stringFlag(f, &o.NIXLLibrary, "nixl-lib", *d.NIXL.Library, "NIXL's libnixl_capi.so (auto is $"+nixl.Variable+", or where pip puts it)")
	stringFlag(f, &o.NIXLBackend, "nixl-backend", *d.NIXL.Backend, "what moves the bytes in NIXL")
	stringFlag(f, &o.NIXLParams, "nixl-params", *d.NIXL.Params, "its parameters, as name=value,name=value")
	intFlag(f, &o.Lanes, "agent-connections", *d.Connections, "connections for blocks that an engine opens to a peer")
	boolFlag(f, &o.WireSum, "agent-checksum", *d.EnableWireChecksum, "add a CRC32C to each frame of blocks")
	stringFlag(f, &o.TLSCert, "agent-tls-cert", *d.TLS.CertFile, "PEM `FILE` with the engine's certificate; TLS between engines needs all three files")
	stringFlag(f, &o.TLSKey, "agent-tls-key", *d.TLS.KeyFile, "PEM `FILE` with its key")
	stringFlag(f, &o.TLSCA, "agent-tls-ca", *d.TLS.CAFile, "PEM `FILE` with the certificates of the authority that signed all engines' own")
}

// leaseFlags are those of every command that is about engines of a pair.
func leaseFlags(f *pflag.FlagSet, o *config.Overrides) {
	d := config.Default()
	durationFlag(f, &o.LeaseDuration, "kv-lease-duration", *d.KVLeaseDuration, "how long prefill holds a computed prompt that nobody asks after")
	boolFlag(f, &o.LeaseVerification, "kv-lease-verification", *d.KVLeaseVerification, "use KV that was read only when the lease is proved to have held")
	intFlag(f, &o.LeaseSlots, "kv-lease-slots", *d.KVLeaseSlots, "prompts that can be under a lease with proof (default one for each block and sequence)")
	durationFlag(f, &o.TurnTTL, "decoder-kv-blocks-ttl", *d.DecoderKVBlocksTTL, "how long decode holds a finished turn for the next one; 0s holds none")
	stringFlag(f, &o.LoadFailurePolicy, "kv-load-failure-policy", *d.KVLoadFailurePolicy, "what becomes of a request whose KV could not be read: fail or recompute")
	intFlag(f, &o.RecomputeThreshold, "kv-recompute-threshold", *d.KVRecomputeThreshold, "tokens; a shorter prefix on another engine is computed instead of read")
}

// routingFlags are those of the router and of what starts one.
func routingFlags(f *pflag.FlagSet, o *config.Overrides) {
	d := config.Default()
	f.Var(listenAddress{o, d.Listen()}, "listen", "the router's HTTP address, host:port; port 0 takes a free one")
	stringFlag(f, &o.PrefillFailurePolicy, "prefill-failure-policy", *d.PrefillFailurePolicy, "what the router does when a prefill engine fails: fail, other (asks another one) or local (decode computes the prompt)")
	intFlag(f, &o.PrefillTries, "prefill-tries", *d.PrefillTries, "prefill engines that a request is tried on under other")
	intFlag(f, &o.LocalPrefillCap, "local-prefill-cap", *d.LocalPrefillCap, "prompts that decode engines may be computing under local")
}

// clusterFlags are those of the commands that are about a whole deployment.
func clusterFlags(f *pflag.FlagSet, o *config.Overrides, pipelined bool) {
	routingFlags(f, o)
	d := config.Default()
	intFlag(f, &o.Prefill, "prefill", *d.ContextServers.NumInstances, "number of prefill engines")
	intFlag(f, &o.Decode, "decode", *d.GenerationServers.NumInstances, "number of decode engines")
	engineFlags(f, o)
	leaseFlags(f, o)
	agentFlags(f, o)
	pipelinedFlag(f, o, pipelined)
}

func pipelinedFlag(f *pflag.FlagSet, o *config.Overrides, shown bool) {
	boolFlag(f, &o.Pipelined, "pipelined", shown, "send each chunk's KV while the next one computes; with a file, what it says")
	boolFlag(f, &o.Layerwise, "layerwise", *config.Default().ContextServers.Transceiver.EnableLayerwiseTransfer,
		"send layers of a chunk while the rest of it computes, when pipelined")
}

func styleFlag(f *pflag.FlagSet, o *config.Overrides) {
	stringFlag(f, &o.ScheduleStyle, "schedule-style", *config.Default().ScheduleStyle, "generation_first or context_first")
}

func drainFlag(f *pflag.FlagSet, into *time.Duration) {
	f.DurationVar(into, "drain-timeout", node.DefaultEngineConfig().DrainTimeout, "how long requests may go on after the order to stop")
}

// engineArgs writes a configuration as the flags of an engine's command.
func engineArgs(cfg node.EngineConfig, pipelined bool) []string {
	args := []string{
		"--model=" + cfg.Model,
		fmt.Sprintf("--block-tokens=%d", cfg.BlockTokens),
		"--kv-dtype=" + cfg.KVDType,
		fmt.Sprintf("--kv-blocks=%d", cfg.KVBlocks),
		"--kv-manager=" + cfg.KVManager,
		fmt.Sprintf("--enable-block-reuse=%t", cfg.BlockReuse),
		fmt.Sprintf("--enable-chunked-prefill=%t", cfg.ChunkedPrefill),
		fmt.Sprintf("--chunk-tokens=%d", cfg.ChunkTokens),
		fmt.Sprintf("--max-seqs=%d", cfg.MaxSeqs),
		fmt.Sprintf("--max-waiting=%d", cfg.MaxWaiting),
		fmt.Sprintf("--tensor-parallel=%d", cfg.TensorParallel),
		fmt.Sprintf("--pipeline-parallel=%d", cfg.PipelineParallel),
		fmt.Sprintf("--kv-checksum=%t", cfg.Checksum),
		"--agent-backend=" + cfg.Agent.Backend,
		"--nixl-lib=" + cfg.Agent.NIXL.Library,
		"--nixl-backend=" + cfg.Agent.NIXL.Backend,
		"--nixl-params=" + cfg.Agent.NIXL.Params,
		fmt.Sprintf("--agent-connections=%d", cfg.Agent.Connections),
		fmt.Sprintf("--agent-checksum=%t", cfg.Agent.Checksum),
		"--agent-tls-cert=" + cfg.Agent.CertFile,
		"--agent-tls-key=" + cfg.Agent.KeyFile,
		"--agent-tls-ca=" + cfg.Agent.CAFile,
		fmt.Sprintf("--kv-transfer-timeout=%s", cfg.TransferTimeout),
		fmt.Sprintf("--kv-lease-duration=%s", cfg.LeaseDuration),
		fmt.Sprintf("--kv-lease-verification=%t", cfg.LeaseVerification),
		fmt.Sprintf("--kv-lease-slots=%d", cfg.LeaseSlots),
		fmt.Sprintf("--decoder-kv-blocks-ttl=%s", cfg.TurnTTL),
		"--kv-load-failure-policy=" + cfg.LoadFailurePolicy,
		fmt.Sprintf("--kv-recompute-threshold=%d", cfg.RecomputeThreshold),
		fmt.Sprintf("--drain-timeout=%s", cfg.DrainTimeout),
	}
	args = append(args, llamaArgs(cfg)...)
	if pipelined {
		args = append(args, fmt.Sprintf("--pipelined=%t", cfg.Pipelined), fmt.Sprintf("--layerwise=%t", cfg.PartBytes > 0))
	}
	return args
}

// routerArgs writes what the router does as the flags of its command.
func routerArgs(c config.Config, drain time.Duration) []string {
	return []string{
		"--schedule-style=" + *c.ScheduleStyle,
		"--prefill-failure-policy=" + *c.PrefillFailurePolicy,
		fmt.Sprintf("--prefill-tries=%d", *c.PrefillTries),
		fmt.Sprintf("--local-prefill-cap=%d", *c.LocalPrefillCap),
		fmt.Sprintf("--drain-timeout=%s", drain),
	}
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
