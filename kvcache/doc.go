// Package kvcache describes the KV cache: how a block is laid out, which blocks
// a request holds, and which of them a prefill chunk may send. It is pure: it
// holds numbers about memory, never the memory itself.
package kvcache
