//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner/reference"
	"kvferry/runner/reference/reftest"
)

// TestTokenizer: the tokens of a text give the text back, zero bytes too, and control tokens are
// text where a client writes them and have none of their own.
func TestTokenizer(t *testing.T) {
	tok := opened(t, llamaModel(t), Options{}).Tokenizer()
	for _, text := range []string{"", "a", " Hello,  world!\n", "caf\u00e9 \U0001f600", "a\x00b\x00", "\x00", "<bos>x<eos>", strings.Repeat("ab ", 500)} {
		var back []byte
		for _, id := range tok.Encode(text) {
			back = append(back, tok.Bytes(id)...)
		}
		if string(back) != text {
			t.Errorf("%q came back as %q", text, back)
		}
	}
	for _, id := range []int32{reftest.BOS, reftest.EOS, reftest.Pad, -1, 1 << 20} {
		if b := tok.Bytes(id); len(b) > 0 {
			t.Errorf("token %d has the text %q", id, b)
		}
	}
}

// TestModel: what the engine is told of a model is what the reference runner tells it, but for the
// hash, which names all that KV depends on.
func TestModel(t *testing.T) {
	path := llamaModel(t)
	r := opened(t, path, Options{})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reference.Load("m", file, reference.Options{BlockTokens: 16, KV: kvcache.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	got, want := r.Model(), ref.Model()
	if got.Vocab != want.Vocab || got.Context != want.Context || got.AddBOS != want.AddBOS || got.BOS != want.BOS || !slices.Equal(got.Ends, want.Ends) || !reflect.DeepEqual(got.Chat, want.Chat) {
		t.Errorf("model is %+v, the reference runner has %+v", got, want)
	}
	if a, b := r.Layout(), ref.Layout(); a.KVHeads != b.KVHeads || a.HeadDim != b.HeadDim || !slices.Equal(a.Groups[0].Layers, b.Groups[0].Layers) {
		t.Errorf("layout is %+v, the reference runner has %+v", a, b)
	}
	for _, part := range []string{Version, "flash attention on", "K f16", "V f16", want.Hash} {
		if !strings.Contains(got.Hash, part) {
			t.Errorf("hash %q does not name %q", got.Hash, part)
		}
	}
	if f32 := opened(t, path, Options{KV: kvcache.F32}).Model().Hash; f32 == got.Hash {
		t.Error("the hash is the same for another KV type")
	}
}

// TestEncodeWhileClosing: requests that still come in while an engine closes find no vocabulary,
// and not freed memory.
func TestEncodeWhileClosing(t *testing.T) {
	r := opened(t, llamaModel(t), Options{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for r.Tokenizer().Encode("a text") != nil {
			}
		})
	}
	r.Close()
	wg.Wait()
}

// TestFindLibrary: a folder that is named has the libraries or is an error that says what to do,
// and a process has one of them.
func TestFindLibrary(t *testing.T) {
	needLibrary(t)
	dir, err := FindLibrary("")
	if err != nil || dir != os.Getenv(Variable) {
		t.Errorf("found %q, %v", dir, err)
	}
	if _, err := FindLibrary(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--llama-lib") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := loadLibrary(dir); err != nil {
		t.Error(err)
	}
	if err := loadLibrary(t.TempDir()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("another folder: %v", err)
	}
}
