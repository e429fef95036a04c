package config

// Config is a whole file. The tags are the one description of each key: the decoder, the
// range checks, the defaults, the JSON Schema and the documentation are made from them.
//
//	min, max  range of a number
//	enum      all values that are taken
//	known     values that a rule refuses with its reason, where enum alone would say less
//	default   what an unsaid key is; inherit names a key at the top level instead
//	doc       what it is
type Config struct {
	Hostname      *string `yaml:"hostname" default:"127.0.0.1" doc:"host that the router listens on; empty is all addresses"`
	Port          *int    `yaml:"port" min:"0" max:"65535" default:"8000" doc:"port that the router listens on; 0 takes a free one"`
	ScheduleStyle *string `yaml:"schedule_style" enum:"generation_first,context_first" default:"generation_first" doc:"generation_first asks both engines at once and prefill pushes the KV; context_first asks prefill and then decode, which pulls it"`
	Model         *string `yaml:"model" default:"embedded" doc:"embedded, the path of a GGUF file, or emulated:NAME[@DEVICE][,context=N]; for all servers that name none"`

	EnableChunkedPrefill *bool `yaml:"enable_chunked_prefill" default:"true" doc:"cut prompts into chunks; for all servers that do not say"`

	ContextServers    Servers `yaml:"context_servers" doc:"the prefill engines"`
	GenerationServers Servers `yaml:"generation_servers" doc:"the decode engines"`
}

// Servers are the engines of one kind.
type Servers struct {
	NumInstances *int     `yaml:"num_instances" min:"1" max:"1024" default:"1" doc:"number of engines; with urls it is their number"`
	URLs         []string `yaml:"urls" doc:"the engines' HTTP addresses, http://host:port or host:port; the router needs them, up starts its own"`

	Model                *string `yaml:"model" inherit:"model" doc:"as at the top level, for these engines"`
	EnableChunkedPrefill *bool   `yaml:"enable_chunked_prefill" inherit:"enable_chunked_prefill" doc:"as at the top level, for these engines"`

	MaxNumTokens *int `yaml:"max_num_tokens" min:"1" max:"1048576" default:"256" doc:"most prompt tokens of one forward pass, which is the length of a chunk"`
	MaxBatchSize *int `yaml:"max_batch_size" min:"1" max:"65536" default:"32" doc:"requests that compute at once"`
	MaxQueueSize *int `yaml:"max_queue_size" min:"1" max:"1048576" default:"1024" doc:"requests that may wait for that; more are refused with 503"`

	TensorParallelSize   *int `yaml:"tensor_parallel_size" enum:"1,2,4" default:"1" doc:"ranks that share each layer"`
	PipelineParallelSize *int `yaml:"pipeline_parallel_size" enum:"1,2" default:"1" doc:"stages that share the layers"`

	KVCache     KVCache     `yaml:"kv_cache_config" doc:"the KV cache"`
	Transceiver Transceiver `yaml:"cache_transceiver_config" doc:"the transfer of the KV cache"`
}

// KVCache is an engine's cache.
type KVCache struct {
	TokensPerBlock *int    `yaml:"tokens_per_block" min:"1" max:"4096" default:"16" doc:"tokens of a block; equal on all engines"`
	DType          *string `yaml:"dtype" enum:"f16,f32" default:"f16" doc:"type of a stored element; equal on all engines"`
	Blocks         *int    `yaml:"blocks" min:"0" max:"16777216" default:"0" doc:"blocks of each layer group's pool; 0 takes four whole contexts"`

	Manager          *string `yaml:"manager" enum:"reserve,grow" default:"reserve" doc:"reserve takes all of a request's blocks at its admission; grow takes them as they are needed, and preempts"`
	EnableBlockReuse *bool   `yaml:"enable_block_reuse" default:"true" doc:"keep finished blocks, so that prompts that begin alike are computed and sent once"`
}

// Transceiver is how an engine's KV travels.
type Transceiver struct {
	Backend                 *string `yaml:"backend" enum:"DEFAULT,TCP" known:"NIXL,SHM,MOONCAKE,UCX,MPI" default:"DEFAULT" doc:"what carries the KV; DEFAULT is TCP"`
	EnablePipelinedTransfer *bool   `yaml:"enable_pipelined_transfer" default:"false" doc:"send each chunk's KV while the next one computes; the prefill engines decide"`
	KVTransferTimeoutMS     *int    `yaml:"kv_transfer_timeout_ms" min:"1" max:"86400000" default:"60000" doc:"how long a transfer may stand still, in milliseconds"`
	KVCacheBounceSizeMB     *int    `yaml:"kv_cache_bounce_size_mb" min:"0" max:"1048576" default:"0" doc:"size of a staging buffer that gathers a request's blocks; not built, and never with pipelined transfer"`
	EnableChecksum          *bool   `yaml:"enable_checksum" default:"false" doc:"the receiver compares each slice with what was sent before it uses it"`
	TransceiverRuntime      *string `yaml:"transceiver_runtime" enum:"auto,go" known:"PYTHON,CPP" default:"auto" doc:"which implementation moves the KV; auto becomes go"`
}

// Overrides are what a command line says over a file. The tags name the flag and the keys that
// it sets; a key that begins with * is set in each section that the command is about.
type Overrides struct {
	Hostname      *string  `flag:"listen" keys:"hostname"`
	Port          *int     `flag:"listen" keys:"port"`
	ScheduleStyle *string  `flag:"schedule-style" keys:"schedule_style"`
	Prefill       *int     `flag:"prefill" keys:"context_servers.num_instances"`
	Decode        *int     `flag:"decode" keys:"generation_servers.num_instances"`
	PrefillURLs   []string `flag:"prefill" keys:"context_servers.urls"`
	DecodeURLs    []string `flag:"decode" keys:"generation_servers.urls"`

	Model          *string `flag:"model" keys:"model,*.model"`
	ChunkedPrefill *bool   `flag:"enable-chunked-prefill" keys:"enable_chunked_prefill,*.enable_chunked_prefill"`
	ChunkTokens    *int    `flag:"chunk-tokens" keys:"*.max_num_tokens"`
	MaxSeqs        *int    `flag:"max-seqs" keys:"*.max_batch_size"`
	MaxWaiting     *int    `flag:"max-waiting" keys:"*.max_queue_size"`
	BlockTokens    *int    `flag:"block-tokens" keys:"*.kv_cache_config.tokens_per_block"`
	KVDType        *string `flag:"kv-dtype" keys:"*.kv_cache_config.dtype"`
	KVBlocks       *int    `flag:"kv-blocks" keys:"*.kv_cache_config.blocks"`
	KVManager      *string `flag:"kv-manager" keys:"*.kv_cache_config.manager"`
	BlockReuse     *bool   `flag:"enable-block-reuse" keys:"*.kv_cache_config.enable_block_reuse"`

	TensorParallel   *int `flag:"tensor-parallel" keys:"*.tensor_parallel_size"`
	PipelineParallel *int `flag:"pipeline-parallel" keys:"*.pipeline_parallel_size"`

	Pipelined *bool `flag:"pipelined" keys:"*.cache_transceiver_config.enable_pipelined_transfer"`
	Checksum  *bool `flag:"kv-checksum" keys:"*.cache_transceiver_config.enable_checksum"`
	TimeoutMS *int  `flag:"kv-transfer-timeout" keys:"*.cache_transceiver_config.kv_transfer_timeout_ms"`
}
