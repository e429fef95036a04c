//go:build linux && amd64

package reference

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
	"kvferry/runner/reference/reftest"
)

// smolModel is the file of SmolLM2-135M-Instruct in Q4_1.
func smolModel(t *testing.T) []byte {
	t.Helper()
	const variable = "KVFERRY_LLAMA_MODEL"
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set: runner/llamacpp/testdata/fetch-model.sh fetches the model")
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// smolBound is the most that the logits of SmolLM2 may differ from llama.cpp's in the mean square.
// It rounds what it multiplies with Q4_1 and Q8_0 matrices to eight bits, a step in 127 of the
// largest of 32, in each of 211 products; we do not. 0.24 was measured, and 1.8 at most.
const smolBound = 0.5

// TestLlamaCppModel: a real model with Q4_1 matrices has the logits that llama.cpp has, as near as
// its rounding allows, and the same greedy tokens wherever the best two are further apart than
// that. The answers are our own, so that both compute the same tokens.
//
// req: SERVE-05
func TestLlamaCppModel(t *testing.T) {
	if testing.Short() {
		t.Skip("a real model is slow")
	}
	needPeer(t)
	file := smolModel(t)
	r, p := loadModel(t, file, 16, kvcache.F16), loadPeer(t, file)
	tables := attach(t, r, 8)
	logits := make([]float32, r.Model().Vocab)
	var worst, square, n float64
	same, other, widest := 0, 0, 0.0
	for _, prompt := range []string{
		"The capital of France is", "1 2 3 4 5 6 7", "Once upon a time there was a ferry",
		"<user> What is the boiling point of water? <assistant>", "func main() {\n\tfmt.Println(",
	} {
		tokens := r.Tokenizer().Encode(prompt)
		prompted := len(tokens)
		var got [][]float32
		for start := 0; len(got) < 8; {
			forward(t, r, runner.Work{Tokens: tokens[start:], Start: start, Tables: tables, Logits: logits})
			start = len(tokens)
			got = append(got, slices.Clone(logits))
			tokens = append(tokens, argmax(logits))
		}
		want := p.logits(t, tokens, kvcache.F16)[prompted-1:]
		for i, logits := range got {
			for v := range logits {
				d := math.Abs(float64(logits[v]) - float64(want[i][v]))
				worst, square, n = max(worst, d), square+d*d, n+1
			}
			if argmax(logits) == argmax(want[i]) {
				same++
				continue
			}
			other++
			widest = max(widest, topGap(logits), topGap(want[i]))
		}
	}
	t.Logf("%d positions: logits differ by up to %.2g, %.2g in the mean square; %d greedy choices differ, where the top two are %.2g apart at most",
		same+other, worst, math.Sqrt(square/n), other, widest)
	if mean := math.Sqrt(square / n); !(mean < smolBound) {
		t.Errorf("logits differ by %g in the mean square, bound %g", mean, smolBound)
	}
	if widest >= smolBound {
		t.Errorf("a greedy choice differs where the top two are %g apart", widest)
	}
	if other*10 > same {
		t.Errorf("%d greedy choices differ and %d are the same", other, same)
	}
}

// TestLlamaCppSmolTokenizer: the tokens of the real vocabulary are llama.cpp's.
func TestLlamaCppSmolTokenizer(t *testing.T) {
	needPeer(t)
	file := smolModel(t)
	f, err := gguf.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := bpe.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	p := loadPeer(t, file)
	for _, text := range []string{
		" ", "  ", "a ", " a", "Hello,  world!", "\n\n\n", "a \n b", "\t\tx 12", "it's we're 'S x'sy",
		"1", "12", " 12", "  12  ", "1234567890", "3.14159", "a1b2", "x 12 34", "\u00bd\u2167 \u0663\u0664 \u00b2", "7\n8", "1 a", "2026-12-01 10:45",
		"caf\u00e9 cafe\u0301", "\u4f60\u597d\uff0c3\u4e16\u754c", "\u041f\u0440\u0438\u0432\u0435\u0442 5", "\U0001f600 5\U0001f600",
		"<|im_start|>user\n", "<|endoftext|>9<|im_end|>", "```go\nfunc main() { return 42 }\n```", strings.Repeat("ab 1", 200), "\xff1\xc3", "\x01\x7f",
	} {
		var want []int32
		for _, id := range llama.Tokenize(p.vocab, text, false, false) {
			want = append(want, int32(id))
		}
		if got := tok.Encode(text); !slices.Equal(got, want) {
			t.Errorf("%q: tokens %v, llama.cpp has %v", text, got, want)
		}
	}
}

// Small random models of the quantised types have llama.cpp's logits, too.
//
// req: SERVE-05
func TestLlamaCppQuantised(t *testing.T) {
	needPeer(t)
	for _, kind := range []gguf.Type{gguf.Q4_0, gguf.Q4_1, gguf.Q8_0} {
		t.Run(kind.String(), func(t *testing.T) {
			file := reftest.Model(reftest.ModelOptions{Seed: 7, Layers: 2, Width: 64, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 96, Type: kind})
			r, p := loadModel(t, file, 16, kvcache.F32), loadPeer(t, file)
			tokens := make([]int32, 40)
			for i := range tokens {
				tokens[i] = int32(i*37%250) + 3
			}
			want := p.logits(t, tokens, kvcache.F32)
			tables := attach(t, r, 4)
			logits := make([]float32, r.Model().Vocab)
			var square, all float64
			for pos := range tokens {
				forward(t, r, runner.Work{Tokens: tokens[pos : pos+1], Start: pos, Tables: tables, Logits: logits})
				for v := range logits {
					d := float64(logits[v]) - float64(want[pos][v])
					square, all = square+d*d, all+float64(want[pos][v])*float64(want[pos][v])
				}
			}
			// Of random weights more is rounding than of learnt ones: 0.036 was measured.
			ratio := math.Sqrt(square / all)
			t.Logf("logits differ by %.2g of what they are, in the mean square", ratio)
			if !(ratio < 0.15) {
				t.Errorf("logits differ by %g of what they are", ratio)
			}
		})
	}
}
