package bpe_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

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
