package node_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"kvferry/config"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/transfer"
)

// everything is settings of which none is its default, and which differ between the sections
// wherever they may.
const everything = `
hostname: localhost
port: 9000
prefill_failure_policy: local
prefill_tries: 31
local_prefill_cap: 32
kv_lease_verification: false
decoder_kv_blocks_ttl: 26.5
context_servers:
  urls: ['p:1', 'p:2']
  model: p.gguf
  max_num_tokens: 11
  max_batch_size: 12
  max_queue_size: 13
  tensor_parallel_size: 2
  kv_cache_config: {tokens_per_block: 8, dtype: f32, blocks: 14, manager: grow, enable_block_reuse: false}
  cache_transceiver_config: {enable_pipelined_transfer: true, kv_transfer_timeout_ms: 15, enable_checksum: true, transceiver_runtime: go, kv_lease_duration: 0.5, kv_lease_slots: 16, decoder_kv_blocks_ttl: 0, enable_wire_checksum: true, connections: 15, backend: NIXL, nixl: {library: n.so, backend: B, params: a=b}, tls: {cert_file: p.crt, key_file: p.key, ca_file: ca.crt}}
generation_servers:
  urls: ['d:1']
  model: d.gguf
  enable_chunked_prefill: false
  max_num_tokens: 21
  max_batch_size: 22
  max_queue_size: 23
  tensor_parallel_size: 4
  pipeline_parallel_size: 2
  kv_cache_config: {tokens_per_block: 8, dtype: f32, blocks: 24, manager: reserve, enable_block_reuse: true}
  cache_transceiver_config: {enable_layerwise_transfer: false, kv_transfer_timeout_ms: 25, kv_lease_duration: 60, kv_lease_verification: true, kv_load_failure_policy: recompute, kv_recompute_threshold: 27, connections: 16, backend: TCP, tls: {cert_file: d.crt, key_file: d.key, ca_file: ca.crt}}
`

func resolved(t *testing.T, data string) config.Config {
	t.Helper()
	c, _, err := config.Load(config.Source{File: "test", Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each engine gets its own section, the router the addresses.
// req: PIPE-24
func TestSettingsReachTheEngines(t *testing.T) {
	c := resolved(t, everything)
	process := node.DefaultEngineConfig()
	prefill := node.EngineConfig{
		Role: engine.Prefill, Model: "p.gguf", Listen: process.Listen, AgentListen: process.AgentListen,
		BlockTokens: 8, KVDType: "f32", KVBlocks: 14, KVManager: "grow", ChunkedPrefill: true, ChunkTokens: 11,
		Pipelined: true, PartBytes: transfer.PartBytes, Checksum: true, TensorParallel: 2, PipelineParallel: 1, MaxSeqs: 12, MaxWaiting: 13,
		TransferTimeout: 15 * time.Millisecond, DrainTimeout: process.DrainTimeout,
		LeaseDuration: time.Second / 2, LeaseSlots: 16, LoadFailurePolicy: node.FailPolicy,
		Runner: process.Runner, Requantize: process.Requantize, Llama: process.Llama,
		Agent: node.AgentConfig{Backend: "NIXL", NIXL: node.NIXLConfig{Library: "n.so", Backend: "B", Params: "a=b"}, Connections: 15, Checksum: true, CertFile: "p.crt", KeyFile: "p.key", CAFile: "ca.crt"},
	}
	decode := node.EngineConfig{
		Role: engine.Decode, Model: "d.gguf", Listen: process.Listen, AgentListen: process.AgentListen,
		BlockTokens: 8, KVDType: "f32", KVBlocks: 24, KVManager: "reserve", BlockReuse: true, ChunkTokens: 21,
		TensorParallel: 4, PipelineParallel: 2, MaxSeqs: 22, MaxWaiting: 23,
		TransferTimeout: 25 * time.Millisecond, DrainTimeout: process.DrainTimeout,
		LeaseDuration: time.Minute, LeaseVerification: true, TurnTTL: 26500 * time.Millisecond,
		LoadFailurePolicy: node.RecomputePolicy, RecomputeThreshold: 27,
		Runner: process.Runner, Requantize: process.Requantize, Llama: process.Llama,
		Agent: node.AgentConfig{Backend: "TCP", NIXL: process.Agent.NIXL, Connections: 16, CertFile: "d.crt", KeyFile: "d.key", CAFile: "ca.crt"},
	}
	for role, want := range map[engine.Role]node.EngineConfig{engine.Prefill: prefill, engine.Decode: decode} {
		if got := node.EngineConfigOf(c, role); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", role, got, want)
		}
	}
	router := node.RouterConfig{
		Listen: "localhost:9000", Prefill: []string{"http://p:1", "http://p:2"}, Decode: []string{"http://d:1"},
		DrainTimeout: process.DrainTimeout,
	}
	router.ScheduleStyle, router.PrefillFailurePolicy, router.PrefillTries, router.LocalCap = "generation_first", "local", 31, 32
	router.Turns = 1 << 16
	if got := node.RouterConfigOf(c); !reflect.DeepEqual(got, router) {
		t.Errorf("router:\ngot  %+v\nwant %+v", got, router)
	}
	first := resolved(t, "schedule_style: context_first\ndecoder_kv_blocks_ttl: 0\n")
	if got := node.RouterConfigOf(first); got.ScheduleStyle != "context_first" || got.Turns != 0 {
		t.Errorf("prefill first and no turns: %+v", got)
	}
}

// An engine that a program configures by itself passes the validation of files, before anything
// is loaded: the model does not exist.
// req: PIPE-22
// req: PIPE-24
func TestEngineConfigIsValidated(t *testing.T) {
	for want, change := range map[string]func(*node.EngineConfig){
		"model: is empty": func(c *node.EngineConfig) { c.Model = "" },
		"kv_cache_config.tokens_per_block: 0: want at least 1":                func(c *node.EngineConfig) { c.BlockTokens = 0 },
		`kv_cache_config.dtype: "fp8": want f16, f32 or q8_0`:                 func(c *node.EngineConfig) { c.KVDType = "fp8" },
		"kv_cache_config.blocks: -1: want at least 0":                         func(c *node.EngineConfig) { c.KVBlocks = -1 },
		`kv_cache_config.manager: "": want reserve or grow`:                   func(c *node.EngineConfig) { c.KVManager = "" },
		"max_num_tokens: 0: want at least 1":                                  func(c *node.EngineConfig) { c.ChunkTokens = 0 },
		"max_batch_size: 0: want at least 1":                                  func(c *node.EngineConfig) { c.MaxSeqs = 0 },
		"max_queue_size: 0: want at least 1":                                  func(c *node.EngineConfig) { c.MaxWaiting = 0 },
		"tensor_parallel_size: 3: want 1, 2 or 4":                             func(c *node.EngineConfig) { c.TensorParallel = 3 },
		"pipeline_parallel_size: 3: want 1 or 2":                              func(c *node.EngineConfig) { c.PipelineParallel = 3 },
		"cache_transceiver_config.kv_transfer_timeout_ms: 0: want at least 1": func(c *node.EngineConfig) { c.TransferTimeout = 0 },
		"cache_transceiver_config.kv_lease_duration: 0: want at least 0.001":  func(c *node.EngineConfig) { c.LeaseDuration = 0 },
		"cache_transceiver_config.kv_lease_slots: -1: want at least 0":        func(c *node.EngineConfig) { c.LeaseSlots = -1 },
		"cache_transceiver_config.decoder_kv_blocks_ttl: -1: want at least":   func(c *node.EngineConfig) { c.TurnTTL = -time.Second },
		`cache_transceiver_config.kv_load_failure_policy: "": want fail or`:   func(c *node.EngineConfig) { c.LoadFailurePolicy = "" },
		"cache_transceiver_config.kv_recompute_threshold: -1: want at leas":   func(c *node.EngineConfig) { c.RecomputeThreshold = -1 },
		"drain-timeout: -1ns: want 0 or more":                                 func(c *node.EngineConfig) { c.DrainTimeout = -1 },
		"enable_chunked_prefill: false: enable_pipelined_transfer ne":         func(c *node.EngineConfig) { c.Pipelined, c.ChunkedPrefill = true, false },
	} {
		for role, section := range map[engine.Role]string{engine.Aggregated: "context_servers", engine.Prefill: "context_servers", engine.Decode: "generation_servers"} {
			cfg := node.DefaultEngineConfig()
			cfg.Role, cfg.Model = role, "no such file"
			change(&cfg)
			_, err := node.StartEngine(cfg)
			if !strings.HasPrefix(want, "drain") {
				want := section + "." + want
				if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: got %v, want %s", role, err, want)
				}
			} else if err == nil || err.Error() != want {
				t.Errorf("%s: got %v, want %s", role, err, want)
			}
		}
	}
}

// Durations shorter than a millisecond are valid, as they always were.
func TestShortTimeout(t *testing.T) {
	cfg := node.DefaultEngineConfig()
	cfg.TransferTimeout = time.Microsecond
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.TransferTimeout = -time.Microsecond
	if cfg.Validate() == nil {
		t.Error("a negative time-out is accepted")
	}
}

// An emulated model is one rank, and says so.
func TestEmulatedModelHasOneRank(t *testing.T) {
	cfg := node.DefaultEngineConfig()
	cfg.Model, cfg.TensorParallel = "emulated:llama-3.1-8b", 2
	if _, err := node.StartEngine(cfg); err == nil || !strings.Contains(err.Error(), "tensor_parallel_size 2") {
		t.Errorf("got %v", err)
	}
}

// Engines that do not store q8_0 name the setting.
func TestQuantizedKVIsRefused(t *testing.T) {
	for _, model := range []string{node.EmbeddedModel, "emulated:llama-3.1-8b"} {
		cfg := node.DefaultEngineConfig()
		cfg.Model, cfg.KVDType, cfg.Runner = model, "q8_0", node.ReferenceRunner
		if _, err := node.StartEngine(cfg); err == nil || !strings.Contains(err.Error(), "kv-dtype q8_0") {
			t.Errorf("%s: %v", model, err)
		}
	}
}
