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
