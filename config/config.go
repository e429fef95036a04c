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
	Engine        *string `yaml:"engine" enum:"auto,reference,llamacpp" default:"auto" doc:"what runs a GGUF file: reference is in Go, llamacpp is llama.cpp, auto is llamacpp, where it is installed, for weights of four bits, large models and what reference cannot load, and reference for the rest; for all servers that do not say"`
	Requantize    *string `yaml:"requantize" enum:"none,q4_0" default:"none" doc:"type of the weights that llama.cpp makes of the model's file at the first start, beside it; for all servers that do not say"`

	EnableChunkedPrefill *bool `yaml:"enable_chunked_prefill" default:"true" doc:"cut prompts into chunks; for all servers that do not say"`

	PrefillFailurePolicy *string `yaml:"prefill_failure_policy" enum:"fail,other,local" default:"fail" doc:"what the router does when a prefill engine fails before an answer began: fail answers with an error, other asks another prefill engine, local lets the decode engine compute the prompt"`
	PrefillTries         *int    `yaml:"prefill_tries" min:"1" max:"64" default:"2" doc:"prefill engines that a request is tried on under other, the first one included"`
	LocalPrefillCap      *int    `yaml:"local_prefill_cap" min:"1" max:"65536" default:"4" doc:"prompts that decode engines may be computing under local; more are refused with 503"`

	KVLeaseDuration      *Seconds `yaml:"kv_lease_duration" min:"0.001" max:"86400" default:"30" doc:"how long prefill holds a computed prompt that nobody asks after, in seconds; decode asks after it every sixth of that, and each time it is held for two thirds more"`
	KVLeaseVerification  *bool    `yaml:"kv_lease_verification" default:"true" doc:"use KV that was read only when a read of the lease's slot afterwards proves that its blocks were still the request's"`
	KVLeaseSlots         *int     `yaml:"kv_lease_slots" min:"0" max:"33554432" default:"0" doc:"prompts that can be under a lease with proof; 0 takes one for each block and each of max_batch_size"`
	DecoderKVBlocksTTL   *Seconds `yaml:"decoder_kv_blocks_ttl" min:"0" max:"604800" default:"480" doc:"how long decode holds a finished turn for the conversation's next one, in seconds; 0 holds none"`
	KVLoadFailurePolicy  *string  `yaml:"kv_load_failure_policy" enum:"fail,recompute" default:"fail" doc:"what becomes of a request whose KV could not be read, or not proved: fail answers with an error, recompute computes the prompt where it is"`
	KVRecomputeThreshold *int     `yaml:"kv_recompute_threshold" min:"0" max:"16777216" default:"0" doc:"tokens; a prefix on another engine that is shorter is computed instead of read; 0 reads all"`

	ContextServers    Servers `yaml:"context_servers" doc:"the prefill engines"`
	GenerationServers Servers `yaml:"generation_servers" doc:"the decode engines"`
}

// Servers are the engines of one kind.
type Servers struct {
	NumInstances *int     `yaml:"num_instances" min:"1" max:"1024" default:"1" doc:"number of engines; with urls it is their number"`
	URLs         []string `yaml:"urls" doc:"the engines' HTTP addresses, http://host:port or host:port; the router needs them, up starts its own"`

	Model                *string `yaml:"model" inherit:"model" doc:"as at the top level, for these engines"`
	Engine               *string `yaml:"engine" enum:"auto,reference,llamacpp" inherit:"engine" doc:"as at the top level, for these engines"`
	Requantize           *string `yaml:"requantize" enum:"none,q4_0" inherit:"requantize" doc:"as at the top level, for these engines"`
	EnableChunkedPrefill *bool   `yaml:"enable_chunked_prefill" inherit:"enable_chunked_prefill" doc:"as at the top level, for these engines"`

	MaxNumTokens *int `yaml:"max_num_tokens" min:"1" max:"1048576" default:"256" doc:"most prompt tokens of one forward pass, which is the length of a chunk"`
	MaxBatchSize *int `yaml:"max_batch_size" min:"1" max:"65536" default:"32" doc:"requests that compute at once"`
	MaxQueueSize *int `yaml:"max_queue_size" min:"1" max:"1048576" default:"1024" doc:"requests that may wait for that; more are refused with 503"`

	TensorParallelSize   *int `yaml:"tensor_parallel_size" enum:"1,2,4" default:"1" doc:"ranks that share each layer"`
	PipelineParallelSize *int `yaml:"pipeline_parallel_size" enum:"1,2" default:"1" doc:"stages that share the layers"`

	Llama       Llama       `yaml:"llama_config" doc:"llama.cpp, where it runs the model"`
	KVCache     KVCache     `yaml:"kv_cache_config" doc:"the KV cache"`
	Transceiver Transceiver `yaml:"cache_transceiver_config" doc:"the transfer of the KV cache"`
}

// Llama is how llama.cpp runs an engine's model.
type Llama struct {
	LlamaLib *string `yaml:"llama_lib" default:"auto" doc:"folder of llama.cpp's shared libraries; auto is $KVFERRY_LLAMA_LIB, or a standard place"`
	Device   *string `yaml:"device" default:"cpu" doc:"what computes: cpu, cuda, metal, vulkan, auto (a GPU if there is one), or a device's own name"`
	Threads  *int    `yaml:"threads" min:"1" max:"1024" default:"1" doc:"threads that compute on the CPU"`
	Context  *int    `yaml:"context" min:"0" max:"16777216" default:"0" doc:"most tokens of a sequence; 0 takes the model's, at most 8192"`
}

// KVCache is an engine's cache.
type KVCache struct {
	TokensPerBlock *int    `yaml:"tokens_per_block" min:"1" max:"4096" default:"16" doc:"tokens of a block; equal on all engines"`
	DType          *string `yaml:"dtype" enum:"f16,f32,q8_0" default:"f16" doc:"how keys and values are stored; equal on all engines; q8_0 needs llama.cpp"`
	Blocks         *int    `yaml:"blocks" min:"0" max:"16777216" default:"0" doc:"blocks of each layer group's pool; 0 takes four whole contexts"`

	Manager          *string `yaml:"manager" enum:"reserve,grow" default:"reserve" doc:"reserve takes all of a request's blocks at its admission; grow takes them as they are needed, and preempts"`
	EnableBlockReuse *bool   `yaml:"enable_block_reuse" default:"true" doc:"keep finished blocks, so that prompts that begin alike are computed and sent once"`
}

// Transceiver is how an engine's KV travels.
type Transceiver struct {
	Backend                 *string `yaml:"backend" enum:"DEFAULT,TCP,SHM,NIXL" known:"MOONCAKE,UCX,MPI" default:"DEFAULT" doc:"what carries the KV: SHM between processes of one host, NIXL, or TCP, which each falls back to with peers that it does not reach; DEFAULT is SHM"`
	EnablePipelinedTransfer *bool   `yaml:"enable_pipelined_transfer" default:"false" doc:"send each chunk's KV while the next one computes; the prefill engines decide"`
	EnableLayerwiseTransfer *bool   `yaml:"enable_layerwise_transfer" default:"true" doc:"with pipelined transfer, send layers of a chunk while the rest of it computes"`
	KVTransferTimeoutMS     *int    `yaml:"kv_transfer_timeout_ms" min:"1" max:"86400000" default:"60000" doc:"how long a transfer may stand still, in milliseconds"`
	KVCacheBounceSizeMB     *int    `yaml:"kv_cache_bounce_size_mb" min:"0" max:"1048576" default:"0" doc:"size of a staging buffer that gathers a request's blocks; not built, and never with pipelined transfer"`
	EnableChecksum          *bool   `yaml:"enable_checksum" default:"false" doc:"the receiver compares each slice with what was sent before it uses it"`
	EnableWireChecksum      *bool   `yaml:"enable_wire_checksum" default:"false" doc:"every frame of blocks carries a CRC32C of what it holds, and a peer whose bytes differ is dropped; each engine decides for what it sends"`
	Connections             *int    `yaml:"connections" min:"1" max:"16" default:"2" doc:"connections for blocks that an engine opens to a peer, beside the one for messages"`
	TransceiverRuntime      *string `yaml:"transceiver_runtime" enum:"auto,go" known:"PYTHON,CPP" default:"auto" doc:"which implementation moves the KV; auto becomes go"`

	KVLeaseDuration      *Seconds `yaml:"kv_lease_duration" min:"0.001" max:"86400" inherit:"kv_lease_duration" doc:"as at the top level, for these engines; the prefill engines' counts"`
	KVLeaseVerification  *bool    `yaml:"kv_lease_verification" inherit:"kv_lease_verification" doc:"as at the top level, for these engines"`
	KVLeaseSlots         *int     `yaml:"kv_lease_slots" min:"0" max:"33554432" inherit:"kv_lease_slots" doc:"as at the top level, for these engines"`
	DecoderKVBlocksTTL   *Seconds `yaml:"decoder_kv_blocks_ttl" min:"0" max:"604800" inherit:"decoder_kv_blocks_ttl" doc:"as at the top level, for these engines; the decode engines' counts"`
	KVLoadFailurePolicy  *string  `yaml:"kv_load_failure_policy" enum:"fail,recompute" inherit:"kv_load_failure_policy" doc:"as at the top level, for these engines"`
	KVRecomputeThreshold *int     `yaml:"kv_recompute_threshold" min:"0" max:"16777216" inherit:"kv_recompute_threshold" doc:"as at the top level, for these engines"`

	TLS  TLS  `yaml:"tls" doc:"the certificates between engines"`
	NIXL NIXL `yaml:"nixl" doc:"what the backend NIXL is told"`
}

// NIXL is how NIXL moves blocks.
type NIXL struct {
	Library *string `yaml:"library" default:"auto" doc:"NIXL's libnixl_capi.so; auto is $KVFERRY_NIXL_LIB, or where pip puts it"`
	Backend *string `yaml:"backend" default:"UCX" doc:"NIXL's own name of what moves the bytes"`
	Params  *string `yaml:"params" default:"none" doc:"that backend's parameters, as name=value,name=value"`
}

// TLS is what engines prove themselves to each other by, beside the token.
type TLS struct {
	CertFile *string `yaml:"cert_file" default:"none" doc:"PEM file with the engine's certificate, or none; with the other two files engines speak TLS 1.3 alone and verify each other"`
	KeyFile  *string `yaml:"key_file" default:"none" doc:"PEM file with its key, or none"`
	CAFile   *string `yaml:"ca_file" default:"none" doc:"PEM file with the certificates of the authority that signed all engines' own, or none"`
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

	PrefillFailurePolicy *string `flag:"prefill-failure-policy" keys:"prefill_failure_policy"`
	PrefillTries         *int    `flag:"prefill-tries" keys:"prefill_tries"`
	LocalPrefillCap      *int    `flag:"local-prefill-cap" keys:"local_prefill_cap"`

	Model          *string `flag:"model" keys:"model,*.model"`
	Engine         *string `flag:"engine" keys:"engine,*.engine"`
	Requantize     *string `flag:"requantize" keys:"requantize,*.requantize"`
	LlamaLib       *string `flag:"llama-lib" keys:"*.llama_config.llama_lib"`
	Device         *string `flag:"device" keys:"*.llama_config.device"`
	Threads        *int    `flag:"threads" keys:"*.llama_config.threads"`
	Context        *int    `flag:"context" keys:"*.llama_config.context"`
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

	Pipelined   *bool   `flag:"pipelined" keys:"*.cache_transceiver_config.enable_pipelined_transfer"`
	Layerwise   *bool   `flag:"layerwise" keys:"*.cache_transceiver_config.enable_layerwise_transfer"`
	Backend     *string `flag:"agent-backend" keys:"*.cache_transceiver_config.backend"`
	NIXLLibrary *string `flag:"nixl-lib" keys:"*.cache_transceiver_config.nixl.library"`
	NIXLBackend *string `flag:"nixl-backend" keys:"*.cache_transceiver_config.nixl.backend"`
	NIXLParams  *string `flag:"nixl-params" keys:"*.cache_transceiver_config.nixl.params"`
	Checksum    *bool   `flag:"kv-checksum" keys:"*.cache_transceiver_config.enable_checksum"`
	WireSum     *bool   `flag:"agent-checksum" keys:"*.cache_transceiver_config.enable_wire_checksum"`
	Lanes       *int    `flag:"agent-connections" keys:"*.cache_transceiver_config.connections"`
	TimeoutMS   *int    `flag:"kv-transfer-timeout" keys:"*.cache_transceiver_config.kv_transfer_timeout_ms"`

	TLSCert *string `flag:"agent-tls-cert" keys:"*.cache_transceiver_config.tls.cert_file"`
	TLSKey  *string `flag:"agent-tls-key" keys:"*.cache_transceiver_config.tls.key_file"`
	TLSCA   *string `flag:"agent-tls-ca" keys:"*.cache_transceiver_config.tls.ca_file"`

	LeaseDuration      *Seconds `flag:"kv-lease-duration" keys:"kv_lease_duration,*.cache_transceiver_config.kv_lease_duration"`
	LeaseVerification  *bool    `flag:"kv-lease-verification" keys:"kv_lease_verification,*.cache_transceiver_config.kv_lease_verification"`
	LeaseSlots         *int     `flag:"kv-lease-slots" keys:"kv_lease_slots,*.cache_transceiver_config.kv_lease_slots"`
	TurnTTL            *Seconds `flag:"decoder-kv-blocks-ttl" keys:"decoder_kv_blocks_ttl,*.cache_transceiver_config.decoder_kv_blocks_ttl"`
	LoadFailurePolicy  *string  `flag:"kv-load-failure-policy" keys:"kv_load_failure_policy,*.cache_transceiver_config.kv_load_failure_policy"`
	RecomputeThreshold *int     `flag:"kv-recompute-threshold" keys:"kv_recompute_threshold,*.cache_transceiver_config.kv_recompute_threshold"`
}
