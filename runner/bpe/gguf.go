package bpe

import (
	"errors"
	"fmt"

	"kvferry/runner/gguf"
)

// FromGGUF makes the tokenizer that a model file describes.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	const prefix = "tokenizer.ggml."
	model, err := f.Str(prefix + "model")
	if err != nil {
		return nil, err
	}
	if model != "gpt2" {
		return nil, fmt.Errorf("key %q: tokenizer %q is not supported: want gpt2", prefix+"model", model)
	}
	var v Vocab
	if v.Pre, err = f.Str(prefix + "pre"); err != nil {
		return nil, err
	}
	if v.Tokens, err = f.Strs(prefix + "tokens"); err != nil {
		return nil, err
	}
	if v.Merges, err = f.Strs(prefix + "merges"); err != nil {
		return nil, err
	}
	kinds, err := f.Ints(prefix + "token_type")
	if err != nil && !errors.Is(err, gguf.ErrMissing) {
		return nil, err
	}
	for _, k := range kinds {
		v.Kinds = append(v.Kinds, Kind(k))
	}
	t, err := New(v)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}
