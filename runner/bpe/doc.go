// Package bpe is the byte-level BPE tokenizer of GPT-2 and its kin, as GGUF files
// describe it (tokenizer.ggml.model "gpt2" with pre-tokenizer "gpt-2" or "smollm").
package bpe
