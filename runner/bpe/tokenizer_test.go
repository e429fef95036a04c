package bpe_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kvferry/models"
	"kvferry/runner/bpe"
	"kvferry/runner/gguf"
)

func tiny(t testing.TB) *bpe.Tokenizer {
	t.Helper()
	f, err := gguf.Parse(models.Tiny)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := bpe.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// The prompts of golden.json were tokenised by the library that trained the vocabulary.
func TestGolden(t *testing.T) {
	tok := tiny(t)
	raw, err := os.ReadFile("../../models/tiny/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Prompt     string
			IDs        []int32
			Greedy     []int32
			GreedyText string `json:"greedy_text"`
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for _, c := range golden.Cases {
		if got := tok.Encode(c.Prompt); !slices.Equal(got, c.IDs[1:]) {
			t.Errorf("%.40q: tokens %v, want %v", c.Prompt, got, c.IDs[1:])
		}
		var text []byte
		for _, id := range c.Greedy {
			text = append(text, tok.Bytes(id)...)
		}
		if string(text) != c.GreedyText {
			t.Errorf("text %q, want %q", text, c.GreedyText)
		}
	}
}

// small is a vocabulary of the letters a to d without c's byte, with merges and special tokens.
func small() bpe.Vocab {
	return bpe.Vocab{
		Pre:    "gpt-2",
		Tokens: []string{"<bos>", "a", "b", "d", "ab", "aa", "aab", "<|user|>", "<|us", "<unk>", "bd"},
		Kinds:  []bpe.Kind{3, 1, 1, 1, 1, 1, 1, 4, 4, 2, 1},
		Merges: []string{"a b", "a a", "a ab", "b d"},
	}
}

func TestMerges(t *testing.T) {
	tok, err := bpe.New(small())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"":              nil,
		"ab":            {4},
		"aab":           {6},       // ab has the better rank, then a ab
		"aaab":          {5, 4},    // after ab the pair a a is the best left
		"aaa":           {5, 1},    // the leftmost of equal ones
		"abd":           {4, 3},    // ab takes b away from bd
		"bcd":           {2, 3},    // c has no token, and nothing merges across it
		"acb":           {1, 2},    // likewise
		"<bos><unk>":    {2},       // control and unknown tokens are never made; only b has a token
		"a<|user|>b":    {1, 7, 2}, // a user-defined token is found first
		"<|us<|user|>a": {8, 7, 1}, // the longest of them before the others
		"\xff":          nil,
	} {
		if got := tok.Encode(text); !slices.Equal(got, want) {
			t.Errorf("%q: tokens %v, want %v", text, got, want)
		}
	}
	for token, want := range map[int32]string{-1: "", 0: "", 1: "a", 6: "aab", 7: "<|user|>", 9: "", 11: ""} {
		if got := string(tok.Bytes(token)); got != want {
			t.Errorf("token %d has text %q, want %q", token, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(v *bpe.Vocab)
		want   string
	}{
		{func(v *bpe.Vocab) { v.Pre = "llama-bpe" }, `pre-tokenizer "llama-bpe" is not supported`},
		{func(v *bpe.Vocab) { v.Pre = "" }, `pre-tokenizer "" is not supported`},
		{func(v *bpe.Vocab) { v.Kinds = v.Kinds[1:] }, "10 token kinds for 11 tokens"},
		{func(v *bpe.Vocab) { v.Tokens[2] = "b b" }, "token 2"},
		{func(v *bpe.Vocab) { v.Merges[1] = "aa" }, "merge 1"},
		{func(v *bpe.Vocab) { v.Merges[2] = "d d" }, "merge 2"},
		{func(v *bpe.Vocab) { v.Merges[3] = "x d" }, "merge 3"},
	} {
		v := small()
		c.change(&v)
		if _, err := bpe.New(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v does not say %q", err, c.want)
		}
	}
}

// A word as long as a client likes must not take more than its share of time: a quadratic
// merge of this text would take minutes.
func TestLongWord(t *testing.T) {
	tok := tiny(t)
	begin := time.Now()
	for _, text := range []string{strings.Repeat("a", 1<<19), strings.Repeat("the", 1<<18), strings.Repeat(" ", 1<<19), strings.Repeat("' ", 1<<18)} {
		var back []byte
		for _, id := range tok.Encode(text) {
			back = append(back, tok.Bytes(id)...)
		}
		if string(back) != text {
			t.Errorf("%.10q... does not come back", text)
		}
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// Whatever the text, its tokens spell it (with U+FFFD for what is not UTF-8), and none is a
// control token.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"It's 12 o'clock.", "<bos><eos><pad>", " \n\n x  ", "caf\u00e9 \U0001f600", "\xff\xc3("} {
		f.Add(s)
	}
	tok := tiny(f)
	f.Fuzz(func(t *testing.T, text string) {
		var back []byte
		for _, id := range tok.Encode(text) {
			if id <= 2 {
				t.Fatalf("%q gives the control token %d", text, id)
			}
			back = append(back, tok.Bytes(id)...)
		}
		if want := string([]rune(text)); string(back) != want {
			t.Fatalf("%q comes back as %q", text, back)
		}
	})
}

// A pre-tokenizer that parts digits keeps merges from crossing them.
func TestDigitMerges(t *testing.T) {
	v := bpe.Vocab{Tokens: []string{"a", "1", "2", "12", "\u0120", "\u01201", "a1", "\u0120a"}, Merges: []string{"1 2", "\u0120 1", "a 1", "\u0120 a"}}
	for pre, want := range map[string][]int32{"gpt-2": {0, 3, 5, 7}, "smollm": {0, 1, 2, 4, 1, 7}} {
		v.Pre = pre
		tok, err := bpe.New(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("a12 1 a"); !slices.Equal(got, want) {
			t.Errorf("%s: tokens %v, want %v", pre, got, want)
		}
	}
}
