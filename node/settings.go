package node

import (
	"fmt"
	"time"

	"kvferry/config"
	"kvferry/engine"
	"kvferry/transfer"
)

// defaultDrain is how long requests may go on after the order to stop.
const defaultDrain = 30 * time.Second

// EngineConfigOf is an engine's part of resolved settings; an aggregated engine has the prefill
// engines'. What only a process is told, as its addresses, is as DefaultEngineConfig has it.
func EngineConfigOf(c config.Config, role engine.Role) EngineConfig {
	s := c.ContextServers
	if role == engine.Decode {
		s = c.GenerationServers
	}
	part := 0
	if *s.Transceiver.EnableLayerwiseTransfer {
		part = transfer.PartBytes
	}
	return EngineConfig{
		Role: role, Model: *s.Model, Runner: *s.Engine, Requantize: *s.Requantize,
		Llama: LlamaConfig{
			Library: *s.Llama.LlamaLib, Device: *s.Llama.Device, Threads: *s.Llama.Threads, Context: *s.Llama.Context,
		},
		Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0",
		BlockTokens: *s.KVCache.TokensPerBlock, KVDType: *s.KVCache.DType, KVBlocks: *s.KVCache.Blocks,
		KVManager: *s.KVCache.Manager, BlockReuse: *s.KVCache.EnableBlockReuse,
		ChunkedPrefill: *s.EnableChunkedPrefill, ChunkTokens: *s.MaxNumTokens,
		Pipelined: role == engine.Prefill && *s.Transceiver.EnablePipelinedTransfer,
		PartBytes: part,
		Checksum:  *s.Transceiver.EnableChecksum,
		Agent: AgentConfig{
			Backend: *s.Transceiver.Backend,
			NIXL: NIXLConfig{
				Library: *s.Transceiver.NIXL.Library, Backend: *s.Transceiver.NIXL.Backend, Params: *s.Transceiver.NIXL.Params,
			},
			Checksum: *s.Transceiver.EnableWireChecksum, Connections: *s.Transceiver.Connections,
			CertFile: *s.Transceiver.TLS.CertFile, KeyFile: *s.Transceiver.TLS.KeyFile, CAFile: *s.Transceiver.TLS.CAFile,
		},
		TensorParallel: *s.TensorParallelSize, PipelineParallel: *s.PipelineParallelSize,
		MaxSeqs: *s.MaxBatchSize, MaxWaiting: *s.MaxQueueSize,
		TransferTimeout: time.Duration(*s.Transceiver.KVTransferTimeoutMS) * time.Millisecond,
		LeaseDuration:   s.Transceiver.KVLeaseDuration.Duration(), LeaseVerification: *s.Transceiver.KVLeaseVerification,
		LeaseSlots: *s.Transceiver.KVLeaseSlots, TurnTTL: s.Transceiver.DecoderKVBlocksTTL.Duration(),
		LoadFailurePolicy: *s.Transceiver.KVLoadFailurePolicy, RecomputeThreshold: *s.Transceiver.KVRecomputeThreshold,
		DrainTimeout: defaultDrain,
	}
}

// settings is the other direction: what an engine is told, as settings.
func (c EngineConfig) settings() config.Servers {
	return config.Servers{
		Model: &c.Model, Engine: &c.Runner, Requantize: &c.Requantize,
		Llama: config.Llama{
			LlamaLib: &c.Llama.Library, Device: &c.Llama.Device, Threads: &c.Llama.Threads, Context: &c.Llama.Context,
		},
		EnableChunkedPrefill: &c.ChunkedPrefill, MaxNumTokens: &c.ChunkTokens,
		MaxBatchSize: &c.MaxSeqs, MaxQueueSize: &c.MaxWaiting,
		TensorParallelSize: &c.TensorParallel, PipelineParallelSize: &c.PipelineParallel,
		KVCache: config.KVCache{
			TokensPerBlock: &c.BlockTokens, DType: &c.KVDType, Blocks: &c.KVBlocks,
			Manager: &c.KVManager, EnableBlockReuse: &c.BlockReuse,
		},
		Transceiver: config.Transceiver{
			EnablePipelinedTransfer: &c.Pipelined, EnableLayerwiseTransfer: new(c.PartBytes > 0), EnableChecksum: &c.Checksum,
			Backend: &c.Agent.Backend,
			NIXL: config.NIXL{
				Library: &c.Agent.NIXL.Library, Backend: &c.Agent.NIXL.Backend, Params: &c.Agent.NIXL.Params,
			},
			EnableWireChecksum: &c.Agent.Checksum, Connections: &c.Agent.Connections,
			TLS: config.TLS{
				CertFile: &c.Agent.CertFile, KeyFile: &c.Agent.KeyFile, CAFile: &c.Agent.CAFile,
			},
			KVTransferTimeoutMS: new(milliseconds(c.TransferTimeout)),
			KVLeaseDuration:     new(config.SecondsOf(c.LeaseDuration)), KVLeaseVerification: &c.LeaseVerification,
			KVLeaseSlots: &c.LeaseSlots, DecoderKVBlocksTTL: new(config.SecondsOf(c.TurnTTL)),
			KVLoadFailurePolicy: &c.LoadFailurePolicy, KVRecomputeThreshold: &c.RecomputeThreshold,
		},
	}
}

// UseOf is what settings are for in an engine of that role.
func UseOf(role engine.Role) config.Use {
	switch role {
	case engine.Prefill:
		return config.Prefill
	case engine.Decode:
		return config.Decode
	}
	return config.Serve
}

// milliseconds rounds up, so that a positive time-out never becomes none.
func milliseconds(d time.Duration) int {
	ms := int(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// Validate reports every setting that is wrong, by its key in a configuration file, before
// anything is loaded or opened. It is the validation of files and flags (PIPE-24).
func (c EngineConfig) Validate() error {
	if c.DrainTimeout < 0 {
		return fmt.Errorf("drain-timeout: %s: want 0 or more", c.DrainTimeout)
	}
	if c.Token != "" {
		if err := CheckToken(c.Token); err != nil {
			return err
		}
	}
	return config.CheckEngine(UseOf(c.Role), c.settings())
}

// rememberedTurns is how many conversations a router remembers where decode engines hold turns.
const rememberedTurns = 1 << 16

// RouterConfigOf is the router's part of resolved settings. Its token is as in DefaultEngineConfig:
// none.
func RouterConfigOf(c config.Config) RouterConfig {
	turns := rememberedTurns
	if *c.GenerationServers.Transceiver.DecoderKVBlocksTTL == 0 {
		turns = 0
	}
	return RouterConfig{
		Listen: c.Listen(), Prefill: c.ContextServers.URLs, Decode: c.GenerationServers.URLs,
		ScheduleStyle: *c.ScheduleStyle, PrefillFailurePolicy: *c.PrefillFailurePolicy,
		PrefillTries: *c.PrefillTries, LocalCap: *c.LocalPrefillCap, Turns: turns,
		DrainTimeout: defaultDrain,
	}
}
