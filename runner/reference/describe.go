package reference

import (
	"errors"
	"fmt"
	"slices"

	"kvferry/runner"
	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
)

// ggml begins the vocabulary's keys.
const ggml = "tokenizer.ggml."

// description reads what the engine must know of the vocabulary, and keeps the first error.
type description struct {
	f      *gguf.File
	tokens []string
	err    error
}

func describe(f *gguf.File, vocab, context int) (runner.Model, error) {
	m := runner.Model{Vocab: vocab, Context: context}
	d := description{f: f}
	if d.tokens, d.err = f.Strs(ggml + "tokens"); d.err != nil {
		return m, d.err
	}
	if len(d.tokens) != vocab {
		return m, fmt.Errorf("key %q: %d tokens, but tensor %q has %d", ggml+"tokens", len(d.tokens), "token_embd.weight", vocab)
	}
	m.AddBOS, d.err = f.Bool(ggml + "add_bos_token")
	d.optional()
	bos, found := d.id("bos_token_id")
	if d.err == nil && m.AddBOS && !found {
		d.err = fmt.Errorf("key %q: %w", ggml+"bos_token_id", gguf.ErrMissing)
	}
	if found {
		m.BOS, m.Chat.BOS = bos, d.tokens[bos]
	}
	if eos, found := d.id("eos_token_id"); found {
		m.Chat.EOS = d.tokens[eos]
	}
	m.Chat.Control = d.controls()
	m.Ends = d.ends(m.Chat.Control)
	if d.err == nil {
		m.Chat.Template, d.err = f.Str("tokenizer.chat_template")
		d.optional()
	}
	return m, d.err
}

// optional forgives a key that is not there.
func (d *description) optional() {
	if errors.Is(d.err, gguf.ErrMissing) {
		d.err = nil
	}
}

// id is a token that a key names.
func (d *description) id(key string) (int32, bool) {
	if d.err != nil {
		return 0, false
	}
	n, err := d.f.Int(ggml + key)
	switch {
	case errors.Is(err, gguf.ErrMissing):
		return 0, false
	case err != nil:
		d.err = err
		return 0, false
	case n < 0 || n >= len(d.tokens):
		d.err = fmt.Errorf("key %q: %d is no token", ggml+key, n)
		return 0, false
	}
	return int32(n), true
}

// controls are the control tokens by their texts; of two with one text, the first.
func (d *description) controls() map[string]int32 {
	kinds, err := d.f.Ints(ggml + "token_type")
	if err != nil || len(kinds) != len(d.tokens) {
		return nil // the tokenizer has refused what is wrong
	}
	all := map[string]int32{}
	for id, k := range kinds {
		if k := bpe.Kind(k); k != bpe.Control && k != bpe.Unknown {
			continue
		}
		if _, taken := all[d.tokens[id]]; !taken {
			all[d.tokens[id]] = int32(id)
		}
	}
	return all
}

// endings are control tokens that end an answer whether or not a key names them, as llama.cpp knows
// them too.
var endings = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>",
	"<EOT>", "_<EOT>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
	"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
}

// ends are the tokens that end an answer.
func (d *description) ends(control map[string]int32) (out []int32) {
	add := func(id int32) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, key := range []string{"eos_token_id", "eot_token_id"} {
		if id, found := d.id(key); found {
			add(id)
		}
	}
	for _, text := range endings {
		if id, found := control[text]; found {
			add(id)
		}
	}
	return out
}
