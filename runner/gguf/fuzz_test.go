package gguf_test

import (
	"testing"

	"kvferry/runner/gguf"
)

// Whatever the bytes are, a file is refused or every tensor of it can be read or refused.
func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	f.Add(raw(3, 0, 1, "k", uint32(9), uint32(9), uint64(2), uint32(0), uint64(1), uint8(7), uint32(8), uint64(1), "x"))
	f.Add(raw(2, 1, 0, "t", uint32(2), uint64(4), uint64(2), uint32(1), uint64(0), make([]byte, 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		total := 0
		for _, tensor := range file.Tensors {
			v, err := file.Floats(tensor)
			if err != nil {
				continue
			}
			if len(v) != tensor.Elements() {
				t.Fatalf("tensor %q has %d elements, want %d", tensor.Name, len(v), tensor.Elements())
			}
			if total += len(v); total > 1<<20 {
				break // tensors may share bytes, so few bytes can describe many
			}
		}
		for _, key := range file.Keys() {
			if _, ok := file.Value(key); !ok {
				t.Fatalf("key %q has no value", key)
			}
		}
	})
}
