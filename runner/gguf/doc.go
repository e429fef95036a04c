// Package gguf reads and writes GGUF model files: metadata of every type, and
// tensors stored as F32, F16, Q8_0, Q4_0 or Q4_1. A file is input from strangers: whatever it
// holds gives a File or an error that names the key or tensor, never a panic, and
// nothing is allocated that the file's own size does not warrant.
package gguf
