package reference

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
	"kvferry/runner/reference/reftest"
)

func TestLoadTiny(t *testing.T) {
	r := loadTiny(t, kvcache.F16)
	got := r.Model()
	if len(got.Hash) != 64 {
		t.Errorf("hash %q is no SHA-256 in hex", got.Hash)
	}
	got.Hash = ""
	want := runner.Model{Name: "TestLoadTiny", Vocab: 2048, Context: got.Context, BOS: 0, AddBOS: true, Ends: []int32{1}}
	want.Chat = runner.Chat{Template: got.Chat.Template, BOS: "<bos>", EOS: "<eos>", Control: map[string]int32{"<bos>": 0, "<eos>": 1, "<pad>": 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("model is %+v, want %+v", got, want)
	}
	if !strings.Contains(got.Chat.Template, "{{ m['content'] }}") {
		t.Errorf("template is %q", got.Chat.Template)
	}
	lay := kvcache.Layout{
		BlockTokens: 16, KVHeads: 4, HeadDim: 32, DType: kvcache.F16,
		Groups: []kvcache.LayerGroup{{Window: 128, Layers: []int{0, 1, 2, 3, 4}}, {Layers: []int{5}}},
	}
	if !reflect.DeepEqual(r.Layout(), lay) {
		t.Errorf("layout is %+v, want %+v", r.Layout(), lay)
	}
	if other := loadModel(t, reftest.Model(reftest.ModelOptions{}), 16, kvcache.F16); other.Model().Hash == r.Model().Hash {
		t.Error("two models have one hash")
	}
}

// Without windows there is one group of all layers.
func TestLoadOneGroup(t *testing.T) {
	for _, arch := range []string{"llama", "gemma3"} {
		r := loadModel(t, reftest.Model(reftest.ModelOptions{Arch: arch, Layers: 3}), 16, kvcache.F32)
		want := []kvcache.LayerGroup{{Layers: []int{0, 1, 2}}}
		if got := r.Layout().Groups; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: groups are %+v, want %+v", arch, got, want)
		}
	}
}

// What a file asks for and we do not do is refused by the name of its key.
func TestLoadRefuses(t *testing.T) {
	gemma := reftest.Model(reftest.ModelOptions{Arch: "gemma3", Window: 16})
	llama := reftest.Model(reftest.ModelOptions{})
	for _, c := range []struct {
		file  []byte
		key   string
		value any
		want  string
	}{
		{llama, "general.architecture", "qwen3", `architecture "qwen3" is not supported`},
		{llama, "general.architecture", nil, `key "general.architecture": not in the file`},
		{llama, "llama.block_count", nil, `key "llama.block_count": not in the file`},
		{llama, "llama.block_count", "two", `key "llama.block_count": two (string) is no integer`},
		{llama, "llama.block_count", uint32(3), `tensor "blk.2.attn_norm.weight": not in the file`},
		{llama, "llama.block_count", uint32(1), `tensor "blk.1.attn_norm.weight": architecture llama`},
		{llama, "llama.block_count", uint32(1 << 23), `key "llama.block_count": 8388608 layers`},
		{llama, "llama.embedding_length", uint64(1 << 60), `key "llama.embedding_length"`},
		{llama, "llama.embedding_length", uint32(0), `key "llama.embedding_length"`},
		{llama, "llama.embedding_length", uint32(65), `tensor "token_embd.weight": dimensions`},
		{llama, "llama.feed_forward_length", uint32(97), `tensor "blk.0.ffn_gate.weight": dimensions`},
		{llama, "llama.attention.head_count_kv", uint32(3), `key "llama.attention.head_count_kv"`},
		{llama, "llama.attention.head_count_kv", []int32{2, 1}, `key "llama.attention.head_count_kv"`},
		{llama, "llama.attention.key_length", uint32(15), `key "llama.attention.value_length"`},
		{llama, "llama.attention.value_length", uint32(8), `key "llama.attention.value_length"`},
		{llama, "llama.rope.dimension_count", uint32(8), `key "llama.rope.dimension_count"`},
		{llama, "llama.attention.layer_norm_rms_epsilon", float32(-1), `key "llama.attention.layer_norm_rms_epsilon"`},
		{llama, "llama.rope.scaling.type", "yarn", `key "llama.rope.scaling.type"`},
		{llama, "llama.rope.scaling.type", "linear", `key "llama.rope.scaling.factor"`},
		{llama, "llama.rope.scaling.type", uint32(1), `key "llama.rope.scaling.type"`},
		{llama, "llama.expert_count", uint32(8), `key "llama.expert_count"`},
		{llama, "llama.attention.sliding_window", uint32(64), `key "llama.attention.sliding_window"`},
		{gemma, "gemma3.final_logit_softcapping", float32(30), `key "gemma3.final_logit_softcapping"`},
		{gemma, "gemma3.attention.sliding_window", int32(-5), `key "gemma3.attention.sliding_window"`},
		{gemma, "gemma3.attention.sliding_window_pattern", []bool{true}, `key "gemma3.attention.sliding_window_pattern"`},
		{llama, "tokenizer.ggml.model", "llama", `key "tokenizer.ggml.model"`},
		{llama, "tokenizer.ggml.pre", "llama-bpe", `pre-tokenizer "llama-bpe"`},
		{llama, "tokenizer.ggml.tokens", []string{"a"}, `1 tokens`},
		{llama, "tokenizer.ggml.bos_token_id", uint32(9999), `key "tokenizer.ggml.bos_token_id"`},
		{llama, "tokenizer.ggml.bos_token_id", nil, `key "tokenizer.ggml.bos_token_id"`},
		{llama, "tokenizer.ggml.eos_token_id", int32(-1), `key "tokenizer.ggml.eos_token_id"`},
	} {
		changes := map[string]any{c.key: c.value}
		if c.key == "tokenizer.ggml.tokens" {
			changes["tokenizer.ggml.token_type"] = nil
		}
		if _, err := Load("m", edit(t, c.file, changes), Options{BlockTokens: 16, KV: kvcache.F16}); err == nil {
			t.Errorf("%s = %v is taken", c.key, c.value)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: error %q does not say %q", c.key, c.value, err, c.want)
		}
	}
	for _, o := range []Options{{KV: kvcache.F16}, {BlockTokens: 16}} {
		if _, err := Load("m", llama, o); err == nil {
			t.Errorf("options %+v are taken", o)
		}
	}
	if _, err := Load("m", llama, Options{BlockTokens: 16, KV: kvcache.Q8_0}); err == nil || !strings.Contains(err.Error(), "kv-dtype q8_0") {
		t.Errorf("q8_0: %v", err)
	}
}

// A file that was cut or damaged anywhere gives an error or a model, never a panic.
func TestLoadDamaged(t *testing.T) {
	file := reftest.Model(reftest.ModelOptions{Layers: 1, Width: 32, FFN: 32, Type: gguf.F16})
	opt := Options{BlockTokens: 16, KV: kvcache.F16}
	for n := 0; n < len(file)-40; n += 131 {
		if r, err := Load("m", file[:n], opt); err == nil {
			r.Close()
			t.Fatalf("a file cut to %d of %d bytes is taken", n, len(file))
		}
	}
	rng := rand.New(rand.NewPCG(5, 1))
	for range 2000 {
		bad := append([]byte(nil), file...)
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(9000)] = byte(rng.Uint32())
		}
		if r, err := Load("m", bad, opt); err == nil {
			r.Close()
		}
	}
}

// Partial sums end at whole heads and columns, as the package's documentation says, so that
// ranks which hold whole quarters can agree with us.
func TestQuarters(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    [5]int
	}{
		{8, 32, [5]int{0, 64, 128, 192, 256}},
		{768, 1, [5]int{0, 192, 384, 576, 768}},
		{9, 64, [5]int{0, 128, 256, 384, 576}},
		{6, 10, [5]int{0, 10, 30, 40, 60}},
		{1, 4, [5]int{0, 0, 0, 0, 4}},
	} {
		if got := quarters(c.n, c.size); got != c.want {
			t.Errorf("quarters of %d of size %d are cut at %v, want %v", c.n, c.size, got, c.want)
		}
	}
}

// TestLoadChat: what a file says of chats is handed on, and control tokens that end answers
// everywhere end them without a key, too.
func TestLoadChat(t *testing.T) {
	file := reftest.Model(reftest.ModelOptions{Template: "{{ messages }}"})
	f, err := gguf.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := f.Strs("tokenizer.ggml.tokens")
	kinds, _ := f.Value("tokenizer.ggml.token_type")
	tokens[200], kinds.([]int32)[200] = "<|im_end|>", int32(bpe.Control)
	tokens[201], kinds.([]int32)[201] = "<|im_end|>", int32(bpe.Unknown)
	got := loadModel(t, edit(t, file, map[string]any{"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}), 16, kvcache.F16).Model()
	if want := []int32{reftest.EOS, 200}; !slices.Equal(got.Ends, want) {
		t.Errorf("ends are %v, want %v", got.Ends, want)
	}
	c := got.Chat
	if c.Template != "{{ messages }}" || c.BOS != "<bos>" || c.EOS != "<eos>" || c.Control["<|im_end|>"] != 200 {
		t.Errorf("chat is %+v", c)
	}
	if _, err := Load("m", edit(t, file, map[string]any{"tokenizer.chat_template": uint32(1)}), Options{BlockTokens: 16, KV: kvcache.F16}); err == nil || !strings.Contains(err.Error(), "tokenizer.chat_template") {
		t.Errorf("a template that is a number: %v", err)
	}
}
