//go:build linux && amd64

package reference

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
	"kvferry/runner/reference/reftest"
)

// peer is llama.cpp with one model loaded. It is used on one locked thread.
type peer struct {
	model llama.Model
	vocab llama.Vocab
}

// needPeer loads the library that KVFERRY_LLAMA_LIB names. Without the variable the test is
// skipped, except in CI, where it must not be.
func needPeer(t *testing.T) {
	t.Helper()
	lib := os.Getenv("KVFERRY_LLAMA_LIB")
	if lib == "" {
		const how = "KVFERRY_LLAMA_LIB is not set: testdata/fetch-llama.sh fetches llama.cpp, and says how to set it"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	if err := llama.Load(lib); err != nil {
		t.Fatal(err)
	}
	llama.LogSet(llama.LogSilent())
	llama.Init()
}

// loadPeer gives llama.cpp a model file. The test keeps its thread from here on.
func loadPeer(t *testing.T, file []byte) *peer {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	model, err := llama.ModelLoadFromFile(path, llama.ModelDefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { llama.ModelFree(model) })
	return &peer{model, llama.ModelGetVocab(model)}
}

// logits computes the logits at every position of tokens, in one sequence.
func (p *peer) logits(t *testing.T, tokens []int32, kv kvcache.DType) [][]float32 {
	t.Helper()
	params := llama.ContextDefaultParams()
	params.NCtx = uint32(len(tokens))
	params.NBatch, params.NUbatch = 128, 128
	params.NSeqMax = 1
	// Its threads spin while they wait, so more than one would hold up other tests.
	params.NThreads, params.NThreadsBatch = 1, 1
	params.FlashAttentionType = llama.FlashAttentionTypeDisabled
	kind := llama.GGMLTypeF16
	if kv == kvcache.F32 {
		kind = llama.GGMLTypeF32
	}
	params.TypeK, params.TypeV = kind, kind
	ctx, err := llama.InitFromModel(p.model, params)
	if err != nil {
		t.Fatal(err)
	}
	defer llama.Free(ctx)
	batch := llama.BatchInit(128, 0, 1)
	defer llama.BatchFree(batch)
	vocab := int(llama.VocabNTokens(p.vocab))
	var out [][]float32
	for start := 0; start < len(tokens); start += 128 {
		batch.Clear()
		n := min(128, len(tokens)-start)
		for i := range n {
			if err := batch.Add(llama.Token(tokens[start+i]), llama.Pos(start+i), []llama.SeqId{0}, true); err != nil {
				t.Fatal(err)
			}
		}
		if code, err := llama.Decode(ctx, batch); err != nil || code != 0 {
			t.Fatalf("llama.cpp decode: %d, %v", code, err)
		}
		for i := range n {
			l, err := llama.GetLogitsIth(ctx, int32(i), vocab)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(l))
		}
	}
	return out
}

// llamaBound is the most that any logit may differ from llama.cpp's. For F16 matrices it
// rounds the other factor to half precision too, GELU comes from a table of halves, and
// rotation angles are float32 products, none of which we do: 0.008 was measured with the
// tiny model, 0.006 with the random ones, logits reaching 19. The bound leaves room for
// other processors, whose kernels add in other orders; a wrong rope base, window or norm
// differs by more than 0.1.
const llamaBound = 0.02

// Teacher-forced: both compute the same tokens, whatever each would have chosen.
func TestLlamaCpp(t *testing.T) {
	if testing.Short() {
		t.Skip("compares 2,500 positions, which the race detector makes slow")
	}
	needPeer(t)
	text := longCase(t).IDs
	for _, c := range []struct {
		name string
		file []byte
		kv   kvcache.DType
	}{
		{"tiny", reftest.F16(models.Tiny), kvcache.F16},
		{"tiny", reftest.F16(models.Tiny), kvcache.F32},
		{"llama", reftest.Model(reftest.ModelOptions{Layers: 3, KVHeads: 1}), kvcache.F32},
		{"gemma3", reftest.Model(reftest.ModelOptions{Arch: "gemma3", Layers: 8, Window: 20, Tied: true}), kvcache.F32},
		{"gemma3 full", reftest.Model(reftest.ModelOptions{Arch: "gemma3"}), kvcache.F32},
	} {
		t.Run(c.name+" "+c.kv.String(), func(t *testing.T) {
			r := loadModel(t, c.file, 16, c.kv)
			tokens := slices.Clone(text)
			for i := range tokens {
				tokens[i] %= int32(r.Model().Vocab)
			}
			compare(t, r, tokens, loadPeer(t, c.file).logits(t, tokens, c.kv))
		})
	}
}

// compare computes tokens one by one and holds each position's logits against want.
func compare(t *testing.T, r *Runner, tokens []int32, want [][]float32) {
	t.Helper()
	tables := attach(t, r, 64)
	logits := make([]float32, r.Model().Vocab)
	worst, largest, widest, other := 0.0, 0.0, 0.0, 0
	for pos := range tokens {
		forward(t, r, runner.Work{Tokens: tokens[pos : pos+1], Start: pos, Tables: tables, Logits: logits})
		for v := range logits {
			worst = max(worst, math.Abs(float64(logits[v])-float64(want[pos][v])))
			largest = max(largest, float64(want[pos][v]))
		}
		if argmax(logits) != argmax(want[pos]) {
			other++
			widest = max(widest, topGap(logits), topGap(want[pos]))
		}
	}
	t.Logf("%d tokens: logits up to %.2g differ by up to %.2g; %d greedy choices differ, where the top two are %.2g apart at most",
		len(tokens), largest, worst, other, widest)
	if !(worst < llamaBound) {
		t.Errorf("logits differ by up to %g, bound %g", worst, llamaBound)
	}
	if widest >= llamaBound {
		t.Errorf("a greedy choice differs where the top two are %g apart, bound %g", widest, llamaBound)
	}
}

// topGap is how far the best logit is above the next.
func topGap(logits []float32) float64 {
	best := argmax(logits)
	next := math.Inf(-1)
	for i, v := range logits {
		if int32(i) != best {
			next = max(next, float64(v))
		}
	}
	return float64(logits[best]) - next
}

// The two tokenizers must agree on whatever a client may send. (The binding cannot hand over
// an empty text or a zero byte. It also reads overlong forms and surrogates as characters,
// where we, like Go, see bytes that are not UTF-8.)
func TestLlamaCppTokenizer(t *testing.T) {
	needPeer(t)
	p := loadPeer(t, models.Tiny)
	r := loadTiny(t, kvcache.F16)
	for _, text := range []string{
		" ", "  ", "a", " a", "a ", "  a  ", "Hello, world!", "Hello,  world !",
		"\n", "\n\n\n", "a\n\nb", "a \n b", "\t\tx", "x\r\n\r\ny", " \u00a0 \u2003x", "\u3000\u3000x\u0085y",
		"it's we're I'm you'd he'll can't they've", "IT'S 'S 's' ''s '", "'", "' s", "x'sy",
		"1", "12", "1234567890", "3.14159", "a1b2", "x 12 34", "\u00bd \u2167 \u0663\u0664", "\u00b2",
		"caf\u00e9", "cafe\u0301", "na\u00efve", "\u00c6\u00d8", "\u4f60\u597d\uff0c\u4e16\u754c", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u0645\u0631\u062d\u0628\u0627", "\u0928\u092e\u0938\u094d\u0924\u0947",
		"\U0001f600", "a \U0001f600 b", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "e\ufe0f",
		"<bos>", "<eos> <pad>", "<bos", "a<bos>b", "<|im_start|>", "```go\nfunc main() {}\n```", "((()))", "...", "--- ---", "$5.00%", "\x01", "\x7f",
		"http://example.org/?a=b&c=d", "\u2018quoted\u2019 \u201ctext\u201d \u2014 dash", "ffi \ufb03", strings.Repeat("ab", 400), strings.Repeat(" ", 300) + "x",
		"\xff", "a\xffb", "\xc3", "\xc3(", "\xe4\xbd", "\xf0\x9f\x98", "\xf8\x88\x80\x80\x80",
		longCase(t).Prompt,
	} {
		sameTokens(t, r, p, text)
	}
}

// User-defined tokens are found in text, longer ones first; control tokens are not.
func TestLlamaCppUserDefined(t *testing.T) {
	needPeer(t)
	file := reftest.Model(reftest.ModelOptions{Merges: []string{"a b", "ab c", "a a", "b c"}})
	f, err := gguf.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := f.Strs("tokenizer.ggml.tokens")
	kinds, _ := f.Value("tokenizer.ggml.token_type")
	for id, text := range map[int]string{200: "<|us", 201: "<|user|>", 202: "us", 203: " x"} {
		tokens[id] = text
		kinds.([]int32)[id] = int32(bpe.UserDefined)
	}
	file = edit(t, file, map[string]any{"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds})
	p, r := loadPeer(t, file), loadModel(t, file, 16, kvcache.F16)
	for _, text := range []string{"a<|user|>b", "<|us<|user|>", "<|user<|us|>", "use us", "a x  x", "abc aabc <bos>", "aaab\xc5\x81"} {
		sameTokens(t, r, p, text)
	}
}

func sameTokens(t *testing.T, r *Runner, p *peer, text string) {
	t.Helper()
	var want []int32
	for _, id := range llama.Tokenize(p.vocab, text, false, false) {
		want = append(want, int32(id))
	}
	if got := r.Tokenizer().Encode(text); !slices.Equal(got, want) {
		t.Errorf("%q: tokens %v, llama.cpp has %v", text, got, want)
	}
}
