package config

import (
	"slices"
	"strings"
)

// rules are what settings demand of each other. Each looks at a filled configuration and
// names, in its faults, the setting that stands in the way and what it is in the way of. A
// value that is no value of its key at all is not a rule's business.
var rules = []func(Config) []Finding{
	styleForPipelining,
	chunksForPipelining,
	noBounceForPipelining,
	countOfURLs,
	equalBlocks,
	wholeTLS,
	readableParams,
	tlsOnBoth,
	equalEngines,
	llamaForLlama,
}

// styleForPipelining: decode must have registered its blocks before prefill computes, or there
// is nothing to write chunks into (PIPE-21).
func styleForPipelining(c Config) []Finding {
	var on []string
	for _, s := range c.sides() {
		if s.pipelined() {
			on = append(on, s.path+"."+pipelinedKey)
		}
	}
	if *c.ScheduleStyle != ContextFirst || len(on) == 0 {
		return nil
	}
	return []Finding{at("schedule_style", "%s: want %s with %s, because decode must have registered its blocks when prefill begins to write",
		ContextFirst, GenerationFirst, strings.Join(on, " and "))}
}

// The schedule styles.
const (
	GenerationFirst = "generation_first"
	ContextFirst    = "context_first"
)

// The policies for a prompt whose KV could not be loaded.
const (
	FailPolicy      = "fail"
	RecomputePolicy = "recompute"
)

// chunksForPipelining: what is sent are the scheduler's chunks (PIPE-22).
func chunksForPipelining(c Config) (faults []Finding) {
	for _, s := range c.sides() {
		if s.pipelined() && !*s.EnableChunkedPrefill {
			faults = append(faults, s.at("enable_chunked_prefill", "false: %s needs true, because what it sends are the scheduler's chunks", pipelining))
		}
	}
	return faults
}

// noBounceForPipelining: a staging buffer gathers a whole request, so nothing could leave before
// prefill ends (PIPE-23).
func noBounceForPipelining(c Config) (faults []Finding) {
	for _, s := range c.sides() {
		if mb := *s.Transceiver.KVCacheBounceSizeMB; s.pipelined() && mb > 0 {
			faults = append(faults, s.at(bounceKey, "%d: %s needs 0, because a bounce buffer gathers the whole request first", mb, pipelining))
		}
	}
	return faults
}

// countOfURLs: num_instances beside urls says the same.
func countOfURLs(c Config) (faults []Finding) {
	for _, s := range c.sides() {
		if n, urls := *s.NumInstances, len(s.URLs); urls > 0 && n != urls {
			faults = append(faults, s.at("num_instances", "%d: but %s.urls has %d", n, s.path, urls))
		}
	}
	return faults
}

// equalBlocks: engines exchange KV only between equal blocks; their handshake would refuse it.
func equalBlocks(c Config) (faults []Finding) {
	p, d := c.ContextServers.KVCache, c.GenerationServers.KVCache
	if valid(c, contextServers+".kv_cache_config.tokens_per_block") && *p.TokensPerBlock != *d.TokensPerBlock {
		faults = append(faults, at(generationServers+".kv_cache_config.tokens_per_block", "%d: the prefill engines have %d, and blocks must be equal", *d.TokensPerBlock, *p.TokensPerBlock))
	}
	if valid(c, contextServers+".kv_cache_config.dtype") && *p.DType != *d.DType {
		faults = append(faults, at(generationServers+".kv_cache_config.dtype", "%s: the prefill engines have %s, and blocks must be equal", *d.DType, *p.DType))
	}
	return faults
}

// equalEngines: what computes, and the weights, decide the KV's bits; their handshake would refuse
// it.
func equalEngines(c Config) (faults []Finding) {
	p, d := c.ContextServers, c.GenerationServers
	runners := []string{ReferenceEngine, LlamaEngine}
	if slices.Contains(runners, *p.Engine) && slices.Contains(runners, *d.Engine) && *p.Engine != *d.Engine {
		faults = append(faults, at(generationServers+".engine", "%s: the prefill engines have %s, and only equal engines exchange KV", *d.Engine, *p.Engine))
	}
	if valid(c, contextServers+".requantize") && *p.Model == *d.Model && *p.Requantize != *d.Requantize {
		faults = append(faults, at(generationServers+".requantize", "%s: the prefill engines have %s, and the weights must be equal", *d.Requantize, *p.Requantize))
	}
	return faults
}

// llamaForLlama: the reference runner takes a file as it is, and computes on the CPU.
func llamaForLlama(c Config) (faults []Finding) {
	for _, s := range c.sides() {
		if *s.Engine != ReferenceEngine {
			continue
		}
		if q := *s.Requantize; q != NoRequantize {
			faults = append(faults, s.at("requantize", "%s: needs engine %s, which makes the file, and not %s", q, LlamaEngine, ReferenceEngine))
		}
		if d := *s.Llama.Device; d != CPU && d != Auto {
			faults = append(faults, s.at("llama_config.device", "%s: needs engine %s; %s computes on the CPU", quote(d), LlamaEngine, ReferenceEngine))
		}
	}
	return faults
}

// wholeTLS: one certificate file without the others is a mistake, and must not become no TLS.
func wholeTLS(c Config) (faults []Finding) {
	for _, s := range c.sides() {
		t := s.Transceiver.TLS
		if *t.CertFile == NoFile && *t.KeyFile == NoFile && *t.CAFile == NoFile {
			continue
		}
		for _, f := range []struct{ key, value string }{{"cert_file", *t.CertFile}, {"key_file", *t.KeyFile}, {"ca_file", *t.CAFile}} {
			if f.value == NoFile {
				faults = append(faults, s.at(tlsKey+f.key, "%s: TLS needs cert_file, key_file and ca_file", NoFile))
			}
		}
	}
	return faults
}

// tlsOnBoth: engines with certificates and engines without do not speak to each other.
func tlsOnBoth(c Config) []Finding {
	p, d := c.ContextServers.Transceiver.TLS, c.GenerationServers.Transceiver.TLS
	switch {
	case (*p.CAFile == NoFile) == (*d.CAFile == NoFile):
		return nil
	case *p.CAFile == NoFile:
		return []Finding{at(generationServers+"."+tlsKey+"ca_file", "%s: the prefill engines have no certificates, and engines with and without cannot speak to each other", quote(*d.CAFile))}
	}
	return []Finding{at(contextServers+"."+tlsKey+"ca_file", "%s: the decode engines have no certificates, and engines with and without cannot speak to each other", quote(*p.CAFile))}
}

const tlsKey = "cache_transceiver_config.tls."

// NoFile stands where no file is named.
const NoFile = "none"

// What runs a model's file, beside Auto.
const (
	ReferenceEngine = "reference"
	LlamaEngine     = "llamacpp"
)

// NoRequantize leaves a model's file as it is, CPU is the device that is always there.
const (
	NoRequantize = "none"
	CPU          = "cpu"
)

// valid tells whether a key's value is one.
func valid(c Config, path string) bool { return byPath[path].check(&c) == nil }

// senderDecides warns of a setting that does nothing.
func senderDecides(c Config) []Finding {
	if p, d := c.sides()[0], c.sides()[1]; d.pipelined() && !p.pipelined() {
		return []Finding{d.at(pipelinedKey, "true: does nothing, because the sender decides and %s does not say it", p.path)}
	}
	return nil
}
