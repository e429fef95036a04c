package node

import (
	"log/slog"
	"time"

	"kvferry/agent"
	"kvferry/config"
	"kvferry/engine"
	"kvferry/kvcache"
)

// EmbeddedModel is the name that stands for the model inside the binary.
const EmbeddedModel = config.Embedded

// EngineConfig is what an engine's process is told.
type EngineConfig struct {
	Role engine.Role
	// Model is EmbeddedModel, the path of a GGUF file, or emulated:NAME[@DEVICE][,context=N].
	Model string
	// Runner is what runs a model's file: AutoRunner, ReferenceRunner or LlamaRunner. Requantize is
	// the type of the weights that llama.cpp makes of it at the first start; NoRequantize leaves it
	// as it is. Llama is for llama.cpp.
	Runner     string
	Requantize string
	Llama      LlamaConfig
	// Listen is the HTTP address, AgentListen the transfer agent's.
	Listen, AgentListen string
	// BlockTokens is the number of tokens of a block, KVDType their type, f16, f32 or q8_0.
	BlockTokens int
	KVDType     string
	// KVBlocks is the size of each layer group's pool; 0 takes four whole contexts.
	KVBlocks int
	// ChunkedPrefill cuts prompts into chunks of at most ChunkTokens tokens a pass.
	ChunkedPrefill bool
	ChunkTokens    int
	// Pipelined sends each chunk's KV when it is computed.
	Pipelined bool
	// PartBytes: layers of such a chunk leave before it is computed, whenever so many bytes of them
	// are written, if the runner tells. 0: chunks leave whole.
	PartBytes int
	// TensorParallel and PipelineParallel cut the model into ranks, each with pools of its own.
	TensorParallel, PipelineParallel int
	// KVManager is ReserveManager or GrowManager.
	KVManager string
	// BlockReuse keeps a prefix index: prompts that begin alike are computed, and sent, once.
	BlockReuse bool
	// Checksum compares each slice that is received with what was sent (PIPE-33).
	Checksum bool
	// MaxSeqs is the number of compute slots, MaxWaiting of places in the queue.
	MaxSeqs, MaxWaiting int
	// TransferTimeout is kv_transfer_timeout.
	TransferTimeout time.Duration
	// LeaseDuration is kv_lease_duration, LeaseVerification kv_lease_verification (LEASE-01,
	// LEASE-14). LeaseSlots is the number of slots; 0 takes one for each block and sequence.
	LeaseDuration     time.Duration
	LeaseVerification bool
	LeaseSlots        int
	// TurnTTL is how long a decode engine holds a turn for the next one; 0 holds none.
	TurnTTL time.Duration
	// LoadFailurePolicy is FailPolicy or RecomputePolicy: what becomes of a prompt whose KV could
	// not be loaded.
	LoadFailurePolicy string
	// RecomputeThreshold is the length in tokens from which on a remote prefix is loaded; a
	// shorter one is computed.
	RecomputeThreshold int
	// Agent is how KV travels.
	Agent AgentConfig
	// Token is what a leg must carry to be taken, and what engines prove to each other that they
	// have; TrustNetwork takes legs, and peers, without one. An engine of a pair that has neither
	// takes none.
	Token        string
	TrustNetwork bool
	// DrainTimeout is how long requests may go on after the order to stop.
	DrainTimeout time.Duration
	Log          *slog.Logger
	// WrapAgent, if set, decorates the transfer agent; tests put faults and slow links there.
	WrapAgent func(agent.Agent) agent.Agent
	// Observe, if set, is told of each record when it happens.
	Observe func(engine.Record)
	// PoisonFreed overwrites each block whose content nobody can want; for tests.
	PoisonFreed bool
}

// AgentConfig is how KV travels between engines.
type AgentConfig struct {
	// Backend is TCP, SHM or NIXL. The last two fall back to TCP with peers that they do not reach.
	Backend string
	NIXL    NIXLConfig
	// Connections is how many of them carry blocks, to a peer that this engine dials.
	Connections int
	// Checksum adds a CRC32C to each frame of blocks.
	Checksum bool
	// CertFile, KeyFile and CAFile are the certificates of engines among each other; NoFile is none.
	CertFile, KeyFile, CAFile string
}

// NIXLConfig is what NIXL is told.
type NIXLConfig struct {
	// Library is the file of its interface for C; Auto looks for it.
	Library string
	// Backend is its own name of what moves the bytes, and Params that backend's parameters, as
	// name=value,name=value, or none.
	Backend, Params string
}

// NoFile stands where no file is named.
const NoFile = config.NoFile

// LlamaConfig is how llama.cpp runs a model.
type LlamaConfig struct {
	// Library is the folder of its libraries; Auto looks for them.
	Library string
	// Device is what computes: CPU, Auto, cuda, metal, vulkan or a device's name.
	Device string
	// Threads is how many threads compute.
	Threads int
	// Context is the most tokens of a sequence; 0 takes the model's, at most 8192.
	Context int
}

// What can run a model's file. AutoRunner takes llama.cpp, if it is there, for files that are heavy
// (reference.Heavy) or that the reference runner cannot load, and the reference runner for the rest.
const (
	AutoRunner      = config.Auto
	ReferenceRunner = config.ReferenceEngine
	LlamaRunner     = config.LlamaEngine
)

// Auto finds a library or a device by itself, CPU is the device that is always there, and
// NoRequantize leaves a model's file as it is.
const (
	Auto         = config.Auto
	CPU          = config.CPU
	NoRequantize = config.NoRequantize
)

// The pool managers.
const (
	ReserveManager = "reserve"
	GrowManager    = "grow"
)

// The policies for a prompt whose KV could not be loaded.
const (
	FailPolicy      = config.FailPolicy
	RecomputePolicy = config.RecomputePolicy
)

// parallel is how the model is cut into ranks.
func (c EngineConfig) parallel() kvcache.Parallel {
	return kvcache.Parallel{Tensor: c.TensorParallel, Pipeline: c.PipelineParallel}
}

// DefaultEngineConfig is what an engine does when nothing is asked for.
func DefaultEngineConfig() EngineConfig { return EngineConfigOf(config.Default(), engine.Aggregated) }

// blocksFor is the size of each pool.
func (c EngineConfig) blocksFor(l kvcache.Layout, context int) []int {
	n := c.KVBlocks
	if n == 0 {
		n = 4 * l.TotalBlocks(context)
	}
	blocks := make([]int, len(l.Groups))
	for g := range blocks {
		blocks[g] = n
	}
	return blocks
}
