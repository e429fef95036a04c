package reference

import (
	"bytes"
	"testing"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner/gguf"
	"kvferry/runner/reference/reftest"
)

// What a file's head says against it is what Load says.
func TestSupports(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"embedded":     {models.Tiny, ""},
		"random":       {reftest.Model(reftest.ModelOptions{}), ""},
		"architecture": {changed(t, "gemma3", "gemma9"), `key "general.architecture": architecture "gemma9" is not supported: want gemma3 or llama`},
		"tokenizer":    {changed(t, "gpt-2", "gpt-3"), `tokenizer: pre-tokenizer "gpt-3" is not supported: want gpt-2 or smollm`},
	} {
		f, err := gguf.Parse(c.file)
		if err != nil {
			t.Fatal(err)
		}
		text := func(err error) string {
			if err == nil {
				return ""
			}
			return err.Error()
		}
		if got := text(Supports(f)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		_, err = Load("m", c.file, Options{BlockTokens: 16, KV: kvcache.F16})
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: loads with %v", name, err)
		}
	}
}

// changed is the embedded model with the first of a text replaced.
func changed(t *testing.T, from, to string) []byte {
	t.Helper()
	if !bytes.Contains(models.Tiny, []byte(from)) {
		t.Fatalf("the model has no %q", from)
	}
	return bytes.Replace(models.Tiny, []byte(from), []byte(to), 1)
}

// A file is heavy by its weights' number or by four bits of one.
func TestHeavy(t *testing.T) {
	tensor := func(kind gguf.Type, dims ...int) gguf.Tensor { return gguf.Tensor{Type: kind, Dims: dims} }
	for _, c := range []struct {
		tensors []gguf.Tensor
		want    bool
	}{
		{nil, false},
		{[]gguf.Tensor{tensor(gguf.F32, 32), tensor(gguf.Q4_0, 32)}, true},
		{[]gguf.Tensor{tensor(gguf.Q4_1, 32, 1)}, true},
		{[]gguf.Tensor{tensor(gguf.Q8_0, 1<<15, 1<<10)}, false},
		{[]gguf.Tensor{tensor(gguf.Q8_0, 1<<15, 1<<10), tensor(gguf.F32, 1)}, true},
	} {
		if got := Heavy(&gguf.File{Tensors: c.tensors}); got != c.want {
			t.Errorf("%v is heavy: %v", c.tensors, got)
		}
	}
}
