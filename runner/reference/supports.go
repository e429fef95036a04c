package reference

import (
	"fmt"

	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
)

// Supports says why a file cannot be loaded, as far as that shows without its weights; the error
// names the key or tensor.
func Supports(f *gguf.File) error {
	if _, err := readConfig(f); err != nil {
		return err
	}
	if _, err := bpe.FromGGUF(f); err != nil {
		return err
	}
	for _, t := range f.Tensors {
		if _, err := t.Type.Bytes(t.Elements()); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// heavyWeights is how many weights a model may have without being heavy.
const heavyWeights = 32 << 20

// Heavy says that a file is for another engine, if there is one that can run it: it has many
// weights, or some of four bits, all of which this one holds and multiplies as float32.
func Heavy(f *gguf.File) bool {
	weights := 0
	for _, t := range f.Tensors {
		if weights += t.Elements(); weights > heavyWeights || t.Type == gguf.Q4_0 || t.Type == gguf.Q4_1 {
			return true
		}
	}
	return false
}
