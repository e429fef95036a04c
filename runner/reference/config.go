package reference

import (
	"errors"
	"fmt"
	"math"

	"kvferry/kvcache"
	"kvferry/runner/gguf"
)

// Architectures, as general.architecture names them.
const (
	archGemma3 = "gemma3"
	archLlama  = "llama"
)

const (
	// maxSize bounds each size that a file states, so that products of two cannot overflow.
	maxSize = 1 << 24
	// gemma3Pattern: of so many layers the last is full, the others have the window.
	gemma3Pattern = 6
	// gemma3WindowBase is the rotary base in window layers.
	gemma3WindowBase = 10_000
	defaultRopeBase  = 10_000
)

// rope is how one kind of layer turns its queries and keys.
type rope struct {
	base float64
	// scale multiplies positions (linear scaling).
	scale float64
}

// config is a model's shape.
type config struct {
	arch                                                         string
	layers, width, heads, kvHeads, headDim, ffn, context, window int
	eps                                                          float64
	// windowed and ropeKind have one entry a layer; ropeKind indexes ropes.
	windowed []bool
	ropeKind []int
	ropes    []rope
	// queryScale multiplies queries, embedScale embeddings.
	queryScale, embedScale float32
}

func (c *config) gemma() bool { return c.arch == archGemma3 }

// readConfig takes the shape from the metadata and refuses what is not supported by the
// name of its key.
func readConfig(f *gguf.File) (*config, error) {
	arch, err := f.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	if arch != archGemma3 && arch != archLlama {
		return nil, fmt.Errorf("key %q: architecture %q is not supported: want gemma3 or llama", "general.architecture", arch)
	}
	k := &keys{f: f, prefix: arch + "."}
	c := &config{arch: arch}
	c.layers = k.size("block_count")
	c.width = k.size("embedding_length")
	c.ffn = k.size("feed_forward_length")
	c.context = k.size("context_length")
	c.heads = k.size("attention.head_count")
	c.kvHeads = k.sizeOr("attention.head_count_kv", c.heads)
	c.eps = k.float("attention.layer_norm_rms_epsilon")
	if k.err != nil {
		return nil, k.err
	}
	c.headDim = k.sizeOr("attention.key_length", c.width/c.heads)
	k.same("attention.value_length", c.headDim)
	k.same("rope.dimension_count", c.headDim)
	k.unsupported()
	if c.heads%c.kvHeads != 0 {
		k.fail("attention.head_count_kv", "%d does not divide %d query heads", c.kvHeads, c.heads)
	}
	if c.headDim%2 != 0 {
		k.fail("attention.key_length", "%d is odd", c.headDim)
	}
	// Each layer has tensors of its own, so this bounds what a wrong count can cost.
	if c.layers > len(f.Tensors) {
		k.fail("block_count", "%d layers, but the file has %d tensors", c.layers, len(f.Tensors))
	}
	if k.err != nil {
		return nil, k.err
	}
	c.attention(k)
	return c, k.err
}

// attention fills in what differs between layers and architectures.
func (c *config) attention(k *keys) {
	c.windowed = make([]bool, c.layers)
	c.ropeKind = make([]int, c.layers)
	c.ropes = []rope{{k.floatOr("rope.freq_base", defaultRopeBase), k.ropeScale()}}
	c.queryScale = float32(1 / math.Sqrt(float64(c.headDim)))
	c.embedScale = 1
	if !c.gemma() {
		return
	}
	c.embedScale = float32(math.Sqrt(float64(c.width)))
	if c.layers == 62 {
		// The 27B model alone scales by the width's share of a head, which is not its head size.
		c.queryScale = float32(1 / math.Sqrt(float64(c.width)/float64(c.heads)))
	}
	if c.window = k.intOr("attention.sliding_window", 0); c.window == 0 {
		return
	}
	pattern := k.sizeOr("attention.sliding_window_pattern", gemma3Pattern)
	c.ropes = append(c.ropes, rope{k.floatOr("rope.freq_base_swa", gemma3WindowBase), 1})
	for l := range c.layers {
		if l%pattern < pattern-1 {
			c.windowed[l] = true
			c.ropeKind[l] = 1
		}
	}
}

// groups are the layer groups, in the order of their first layers. place says for each
// layer which group it is in and its number there.
func (c *config) groups() (groups []kvcache.LayerGroup, place [][2]int) {
	index := map[int]int{}
	for l := range c.layers {
		window := 0
		if c.windowed[l] {
			window = c.window
		}
		g, ok := index[window]
		if !ok {
			g = len(groups)
			index[window] = g
			groups = append(groups, kvcache.LayerGroup{Window: window})
		}
		place = append(place, [2]int{g, len(groups[g].Layers)})
		groups[g].Layers = append(groups[g].Layers, l)
	}
	return groups, place
}

// keys reads an architecture's keys and keeps the first error.
type keys struct {
	f      *gguf.File
	prefix string
	err    error
}

func (k *keys) fail(key, format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf("key %q: %s", k.prefix+key, fmt.Sprintf(format, args...))
	}
}

func (k *keys) note(err error) {
	if k.err == nil {
		k.err = err
	}
}

// size is a size that must be there and at least 1.
func (k *keys) size(key string) int {
	n, err := k.f.Int(k.prefix + key)
	if err != nil {
		k.note(err)
		return 1
	}
	if n < 1 || n > maxSize {
		k.fail(key, "%d: want 1 to %d", n, maxSize)
		return 1
	}
	return n
}

func (k *keys) sizeOr(key string, def int) int {
	if _, ok := k.f.Value(k.prefix + key); !ok {
		return max(def, 1)
	}
	return k.size(key)
}

// intOr is a number that may be zero.
func (k *keys) intOr(key string, def int) int {
	n, err := k.f.Int(k.prefix + key)
	switch {
	case errors.Is(err, gguf.ErrMissing):
		return def
	case err != nil:
		k.note(err)
		return def
	case n < 0 || n > maxSize:
		k.fail(key, "%d: want 0 to %d", n, maxSize)
		return def
	}
	return n
}

func (k *keys) float(key string) float64 {
	v, err := k.f.Float(k.prefix + key)
	if err != nil {
		k.note(err)
		return 1
	}
	if !(v > 0) || math.IsInf(v, 0) {
		k.fail(key, "%v: want a positive number", v)
		return 1
	}
	return v
}

func (k *keys) floatOr(key string, def float64) float64 {
	if _, ok := k.f.Value(k.prefix + key); !ok {
		return def
	}
	return k.float(key)
}

// same refuses a size that is there and differs.
func (k *keys) same(key string, want int) {
	if n := k.intOr(key, want); n != want {
		k.fail(key, "%d is not supported: want the head size %d", n, want)
	}
}

// ropeScale is the factor on positions that linear rope scaling asks for.
func (k *keys) ropeScale() float64 {
	if _, ok := k.f.Value(k.prefix + "rope.scaling.type"); !ok {
		return 1
	}
	kind, err := k.f.Str(k.prefix + "rope.scaling.type")
	if err != nil {
		k.note(err)
		return 1
	}
	switch kind {
	case "none":
		return 1
	case "linear":
		return 1 / k.float("rope.scaling.factor")
	}
	k.fail("rope.scaling.type", "%q is not supported: want none or linear", kind)
	return 1
}

// unsupported refuses features whose keys are there and not switched off.
func (k *keys) unsupported() {
	off := []string{"expert_count", "attn_logit_softcapping", "final_logit_softcapping", "attention.scale", "logit_scale", "rope.scale_linear", "rope.scaling.attn_factor"}
	if k.prefix == archLlama+"." {
		off = append(off, "attention.sliding_window")
	}
	for _, key := range off {
		switch v, _ := k.f.Value(k.prefix + key); v {
		case nil, uint32(0), int32(0), float32(0):
		default:
			k.fail(key, "%v is not supported", v)
		}
	}
}
