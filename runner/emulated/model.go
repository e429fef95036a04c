package emulated

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kvferry/kvcache"
)

// model is a model's shape. The bytes of a token's KV follow from it and are never typed.
type model struct {
	layers, heads, kvHeads, headDim int
	// params is the number of weights. Each takes two bytes (bf16) and, for each token, two
	// operations.
	params float64
	// trained is the longest context.
	trained int
	// window is the sliding window of all layers but every global-th one; 0 if all layers see
	// everything.
	window, global int
	// device is the one that is meant when none is named: it holds the weights, and is not so
	// fast that an ordinary machine could not write the KV in time.
	device string
}

// models holds the shapes that their makers publish in each model's config.json
// (num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, sliding_window,
// max_position_embeddings) and the parameter counts of the model cards. The last two are
// made up, for tests: they are small and quick.
var models = map[string]model{
	// meta-llama/Llama-3.1-8B: 128 KiB of KV a token in f16.
	"llama-3.1-8b": {layers: 32, heads: 32, kvHeads: 8, headDim: 128, params: 8.03e9, trained: 131072, device: "l4"},
	// meta-llama/Llama-3.1-70B: 320 KiB a token.
	"llama-3.1-70b": {layers: 80, heads: 64, kvHeads: 8, headDim: 128, params: 70.6e9, trained: 131072, device: "2xa100"},
	// Qwen/Qwen2.5-7B: 56 KiB a token.
	"qwen2.5-7b": {layers: 28, heads: 28, kvHeads: 4, headDim: 128, params: 7.62e9, trained: 131072, device: "l4"},
	// google/gemma-3-12b-it, the language model alone: 384 KiB a token, 64 KiB of it in the
	// eight layers that see everything.
	"gemma-3-12b": {
		layers: 48, heads: 16, kvHeads: 8, headDim: 256, params: 11.8e9, trained: 131072,
		window: 1024, global: 6, device: "a100",
	},
	"test":        {layers: 4, heads: 4, kvHeads: 2, headDim: 32, params: 1e6, trained: 32768, device: "test"},
	"test-window": {layers: 6, heads: 4, kvHeads: 2, headDim: 32, params: 1e6, trained: 32768, window: 40, global: 3, device: "test"},
}

// defaultContext keeps a pool of some contexts within an ordinary machine's memory.
const defaultContext = 8192

// groups sorts the layers: those that see everything first, then those with a window.
func (m model) groups() []kvcache.LayerGroup {
	var full, windowed []int
	for l := range m.layers {
		if m.window == 0 || (l+1)%m.global == 0 {
			full = append(full, l)
		} else {
			windowed = append(windowed, l)
		}
	}
	out := []kvcache.LayerGroup{{Layers: full}}
	if windowed != nil {
		out = append(out, kvcache.LayerGroup{Window: m.window, Layers: windowed})
	}
	return out
}

// hash is the identity. The device and the context are no part of it: engines on unequal
// devices exchange KV.
func (m model) hash(name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "kvferry emulated 1\n%s\n%d %d %d %d %g %d %d",
		name, m.layers, m.heads, m.kvHeads, m.headDim, m.params, m.window, m.global))
	return hex.EncodeToString(sum[:])
}

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
