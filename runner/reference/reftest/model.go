package reftest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
)

// ModelOptions shape a random model. A zero takes the default in brackets.
type ModelOptions struct {
	// Seed decides the weights; equal options give equal files.
	Seed uint64
	// Arch is "llama" or "gemma3" ["llama"].
	Arch string
	// Layers [2], Width [64], Heads [4], KVHeads [2], HeadDim [16], FFN [96].
	Layers, Width, Heads, KVHeads, HeadDim, FFN int
	// Window is the window of gemma3's window layers, five of each six; 0 makes all full.
	Window int
	// Context is the most tokens of a sequence [512].
	Context int
	// Merges are BPE merges "left right" in GPT-2's byte alphabet; each adds a token.
	Merges []string
	// Type stores the matrices [F32]. Q8_0 wants Width, FFN and Heads*HeadDim in 32s.
	Type gguf.Type
	// Tied uses the embeddings as the output matrix too.
	Tied bool
	// Template is the chat template; empty gives the file none.
	Template string
}

// The tokens that are no bytes: byte b is token b+3.
const (
	BOS = 0
	EOS = 1
	Pad = 2
)

// Model makes a random model as a GGUF file. Options that no model can have are a mistake
// in the test, so they panic.
func Model(o ModelOptions) []byte {
	if o.Arch == "" {
		o.Arch = "llama"
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&o.Layers, 2}, {&o.Width, 64}, {&o.Heads, 4}, {&o.KVHeads, 2}, {&o.HeadDim, 16}, {&o.FFN, 96}, {&o.Context, 512}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	b := &builder{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6b76))}
	b.metadata()
	vocab := b.tokenizer()
	b.tensors(vocab)
	return b.w.Bytes()
}

type builder struct {
	o   ModelOptions
	w   gguf.Writer
	rng *rand.Rand
}

func (b *builder) set(key string, v any) {
	if err := b.w.Set(key, v); err != nil {
		panic(err)
	}
}

func (b *builder) metadata() {
	o := b.o
	b.set("general.architecture", o.Arch)
	b.set("general.name", fmt.Sprintf("random %s %d", o.Arch, o.Seed))
	size := func(key string, n int) { b.set(o.Arch+"."+key, uint32(n)) }
	size("block_count", o.Layers)
	size("embedding_length", o.Width)
	size("feed_forward_length", o.FFN)
	size("context_length", o.Context)
	size("attention.head_count", o.Heads)
	size("attention.head_count_kv", o.KVHeads)
	size("attention.key_length", o.HeadDim)
	size("attention.value_length", o.HeadDim)
	b.set(o.Arch+".attention.layer_norm_rms_epsilon", float32(1e-6))
	if o.Arch == "llama" {
		size("rope.dimension_count", o.HeadDim)
		return
	}
	b.set(o.Arch+".rope.freq_base", float32(1_000_000))
	if o.Window > 0 {
		size("attention.sliding_window", o.Window)
	}
}

// tokenizer writes a vocabulary and returns its size.
func (b *builder) tokenizer() int {
	const control, normal = int32(bpe.Control), int32(bpe.Normal)
	tokens := []string{"<bos>", "<eos>", "<pad>"}
	kinds := []int32{control, control, control}
	for i := range 256 {
		tokens = append(tokens, bpe.Spell([]byte{byte(i)}))
		kinds = append(kinds, normal)
	}
	for _, m := range b.o.Merges {
		tokens = append(tokens, strings.Replace(m, " ", "", 1))
		kinds = append(kinds, normal)
	}
	merges := b.o.Merges
	if merges == nil {
		merges = []string{}
	}
	b.set("tokenizer.ggml.model", "gpt2")
	b.set("tokenizer.ggml.pre", "gpt-2")
	b.set("tokenizer.ggml.tokens", tokens)
	b.set("tokenizer.ggml.token_type", kinds)
	if b.o.Template != "" {
		b.set("tokenizer.chat_template", b.o.Template)
	}
	b.set("tokenizer.ggml.merges", merges)
	b.set("tokenizer.ggml.bos_token_id", uint32(BOS))
	b.set("tokenizer.ggml.eos_token_id", uint32(EOS))
	b.set("tokenizer.ggml.padding_token_id", uint32(Pad))
	b.set("tokenizer.ggml.add_bos_token", true)
	return len(tokens)
}

func (b *builder) tensors(vocab int) {
	o := b.o
	b.matrix("token_embd", o.Width, vocab, 1)
	if !o.Tied {
		b.matrix("output", o.Width, vocab, 4)
	}
	b.norm("output_norm", o.Width)
	for l := range o.Layers {
		p := fmt.Sprintf("blk.%d.", l)
		b.norm(p+"attn_norm", o.Width)
		// Queries and keys are large, so that attention has favourites.
		b.matrix(p+"attn_q", o.Width, o.Heads*o.HeadDim, 2)
		b.matrix(p+"attn_k", o.Width, o.KVHeads*o.HeadDim, 2)
		b.matrix(p+"attn_v", o.Width, o.KVHeads*o.HeadDim, 1)
		b.matrix(p+"attn_output", o.Heads*o.HeadDim, o.Width, 1)
		b.norm(p+"ffn_norm", o.Width)
		b.matrix(p+"ffn_gate", o.Width, o.FFN, 1)
		b.matrix(p+"ffn_up", o.Width, o.FFN, 1)
		b.matrix(p+"ffn_down", o.FFN, o.Width, 1)
		if o.Arch == "gemma3" {
			b.norm(p+"attn_q_norm", o.HeadDim)
			b.norm(p+"attn_k_norm", o.HeadDim)
			b.norm(p+"post_attention_norm", o.Width)
			b.norm(p+"post_ffw_norm", o.Width)
		}
	}
}

// matrix adds weights that turn unit inputs into outputs of about the given size.
func (b *builder) matrix(name string, in, out int, gain float64) {
	v := make([]float32, in*out)
	most := gain * math.Sqrt(3/float64(in))
	for i := range v {
		v[i] = float32((2*b.rng.Float64() - 1) * most)
	}
	b.tensor(name, []int{in, out}, b.o.Type, v)
}

func (b *builder) norm(name string, n int) {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(0.75 + 0.5*b.rng.Float64())
	}
	b.tensor(name, []int{n}, gguf.F32, v)
}

func (b *builder) tensor(name string, dims []int, t gguf.Type, v []float32) {
	if err := b.w.Tensor(name+".weight", dims, t, v); err != nil {
		panic(err)
	}
}

// F16 rewrites a model file with its Q8_0 tensors as F16. A file that cannot be read
// panics.
func F16(file []byte) []byte {
	f, err := gguf.Parse(file)
	if err != nil {
		panic(err)
	}
	var w gguf.Writer
	if err := w.Copy(f); err != nil {
		panic(err)
	}
	for _, t := range f.Tensors {
		v, err := f.Floats(t)
		if err != nil {
			panic(err)
		}
		kind := t.Type
		if kind == gguf.Q8_0 {
			kind = gguf.F16
		}
		if err := w.Tensor(t.Name, t.Dims, kind, v); err != nil {
			panic(err)
		}
	}
	return w.Bytes()
}
