package doctor

import (
	"fmt"

	"kvferry/runner/gguf"
	"kvferry/runner/reference"
)

// llamaContext is the most tokens of a sequence with llama.cpp where nothing is said.
const llamaContext = 8192

// poolContexts is how many whole contexts an engine's pools have room for where nothing is said.
const poolContexts = 4

func (d *patient) lookAtModel() {
	const name = "model"
	file, err := d.OpenModel(d.Model)
	if err != nil {
		d.add(name, Fail, "name a GGUF file that this user may read", "%v", err)
		return
	}
	defer file.Close()
	f, err := gguf.Read(file, file.Size())
	if err != nil {
		d.add(name, Fail, "name a GGUF file", "%s: %v", d.Model, err)
		return
	}
	arch, err := f.Str("general.architecture")
	if err != nil {
		d.add(name, Fail, "name a file with a language model", "%s: %v", d.Model, err)
		return
	}
	d.add(name, OK, "", "%s: architecture %s, %s, weights mostly %s", d.Model, arch, size(uint64(file.Size())), mostly(f))
	llama, ok := d.lookAtEngine(f)
	if llama && mostly(f) == "Q4_1" {
		d.add("weights", Warn, "--requantize q4_0 makes them once, beside the model", "llama.cpp computes Q4_1 several times slower than Q4_0")
	}
	if ok {
		d.lookAtNeed(f, arch, uint64(file.Size()), llama)
	}
}

// lookAtEngine says what --engine auto takes, and whether that is llama.cpp.
func (d *patient) lookAtEngine(f *gguf.File) (llama, ok bool) {
	const name = "engine"
	refused := reference.Supports(f)
	switch {
	case refused == nil && d.llama.usable && reference.Heavy(f):
		d.add(name, OK, "", "auto takes llamacpp, which is faster by far")
		return true, true
	case refused == nil && d.llama.usable:
		d.add(name, OK, "--engine llamacpp is faster", "auto takes reference")
	case refused == nil && reference.Heavy(f):
		d.add(name, Warn, d.llama.do, "auto takes reference, which is slow; llamacpp: %s", d.llama.why)
	case refused == nil:
		d.add(name, OK, "", "auto takes reference")
	case d.llama.usable:
		d.add(name, OK, "", "auto takes llamacpp (reference: %v)", refused)
		return true, true
	default:
		d.add(name, Fail, d.llama.do, "none can run it: reference: %v; llamacpp: %s", refused, d.llama.why)
		return false, false
	}
	return false, true
}

// lookAtNeed compares the memory that an engine of the model takes with what there is.
func (d *patient) lookAtNeed(f *gguf.File, arch string, fileSize uint64, llama bool) {
	const name = "memory of it"
	context, perToken, err := kv(f, arch)
	if err != nil {
		d.add(name, Warn, "", "unknown: %v", err)
		return
	}
	weights, contexts := decoded(f), uint64(poolContexts)
	if llama {
		context = min(context, llamaContext)
		weights, contexts = fileSize, poolContexts+1 // its own cells
	}
	need := weights + contexts*context*perToken
	text := fmt.Sprintf("an engine takes %s: weights %s, and KV of %d contexts of %d tokens with %s each", size(need), size(weights), contexts, context, size(context*perToken))
	total, available, err := d.room()
	const do = "less with --kv-blocks or, with llama.cpp, --context, --kv-dtype q8_0 and a smaller type of weights"
	switch {
	case err != nil:
		d.add(name, Warn, "", "%s", text)
	case need > total:
		d.add(name, Fail, do, "%s: more than the %s that there are", text, size(total))
	case need > available:
		d.add(name, Warn, do, "%s: more than the %s that are available", text, size(available))
	case 2*need > available:
		d.add(name, Warn, do+"; or run the other engine on another host", "%s: not twice, as up needs it", text)
	default:
		d.add(name, OK, "", "%s", text)
	}
}

// kv is a model's context in tokens, and the bytes of a token's KV in f16.
func kv(f *gguf.File, arch string) (context, perToken uint64, err error) {
	at := func(key string) int {
		n, e := f.Int(arch + "." + key)
		if err == nil && e == nil && (n < 0 || n > 1<<24) {
			e = fmt.Errorf("key %q: %d", arch+"."+key, n)
		}
		if err == nil {
			err = e
		}
		return n
	}
	tokens, layers, heads, width := at("context_length"), at("block_count"), at("attention.head_count"), at("embedding_length")
	if err != nil || heads == 0 {
		return 0, 0, fmt.Errorf("its shape is not stated as known ones are: %w", err)
	}
	kvHeads, dim := heads, width/heads
	if n, e := f.Int(arch + ".attention.head_count_kv"); e == nil {
		kvHeads = n
	}
	if n, e := f.Int(arch + ".attention.key_length"); e == nil {
		dim = n
	}
	return uint64(tokens), uint64(layers) * uint64(kvHeads) * uint64(dim) * 2 * 2, nil
}

// decoded is the size of all weights as float32, as which the reference runner holds them.
func decoded(f *gguf.File) (n uint64) {
	for _, t := range f.Tensors {
		n += 4 * uint64(t.Elements())
	}
	return n
}

// typeNames are those of stored types, by GGML's number, also of the ones that only llama.cpp reads.
var typeNames = map[gguf.Type]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
	13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16", 39: "MXFP4",
}

// mostly is the type that the most weights have.
func mostly(f *gguf.File) string {
	count := map[gguf.Type]int{}
	var best gguf.Type
	for _, t := range f.Tensors {
		if count[t.Type] += t.Elements(); count[t.Type] > count[best] {
			best = t.Type
		}
	}
	if name := typeNames[best]; name != "" {
		return name
	}
	return best.String()
}
