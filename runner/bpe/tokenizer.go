package bpe

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is what a token is for, by GGML's number.
type Kind int

// The token kinds that change how a token is treated; any other is like Normal.
const (
	Normal      Kind = 1
	Unknown     Kind = 2
	Control     Kind = 3
	UserDefined Kind = 4
)

// Vocab is what a tokenizer is made of.
type Vocab struct {
	// Pre names the pre-tokenizer, which cuts text into words before the merges.
	Pre string
	// Tokens are the tokens' texts: in GPT-2's byte alphabet, but control and user-defined
	// ones as they are.
	Tokens []string
	// Kinds has one kind a token; nil makes all normal.
	Kinds []Kind
	// Merges are the pairs "left right", best first.
	Merges []string
}

// pres are the pre-tokenizer names that mean GPT-2's splitting rule and no other.
var pres = []string{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "roberta-bpe", "mellum", "modern-bert"}

// digitPres are those that make a word of each digit first, and split what is between by GPT-2's
// rule.
var digitPres = []string{"smollm"}

// Tokenizer turns text into tokens and back. It is safe for concurrent use.
type Tokenizer struct {
	// bytes[t] is token t's text, nil for control and unknown tokens.
	bytes [][]byte
	// digits: every digit is a word by itself.
	digits bool
	// first[b] is the token of the single byte b, or none.
	first  [256]int32
	merges map[pair]merge
	// whole are user-defined tokens, which are found in text before all else, longest first.
	whole []wholeToken
}

type pair struct{ left, right int32 }

type merge struct{ rank, token int32 }

type wholeToken struct {
	text  string
	token int32
}

// none is the symbol of a byte that the vocabulary lacks. It merges with nothing.
const none = int32(-1)

// New makes a tokenizer, or says which part of the vocabulary it cannot use.
func New(v Vocab) (*Tokenizer, error) {
	digits := slices.Contains(digitPres, v.Pre)
	if !digits && !slices.Contains(pres, v.Pre) {
		return nil, fmt.Errorf("pre-tokenizer %q is not supported: want gpt-2 or smollm", v.Pre)
	}
	if v.Kinds != nil && len(v.Kinds) != len(v.Tokens) {
		return nil, fmt.Errorf("%d token kinds for %d tokens", len(v.Kinds), len(v.Tokens))
	}
	t := &Tokenizer{digits: digits, bytes: make([][]byte, len(v.Tokens)), merges: make(map[pair]merge, len(v.Merges))}
	for i := range t.first {
		t.first[i] = none
	}
	byText := make(map[string]int32, len(v.Tokens))
	for i, text := range v.Tokens {
		if err := t.addToken(int32(i), text, v.kind(i), byText); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(t.whole, func(a, b wholeToken) int { return len(b.text) - len(a.text) })
	for rank, m := range v.Merges {
		if err := t.addMerge(int32(rank), m, byText); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (v Vocab) kind(i int) Kind {
	if v.Kinds == nil {
		return Normal
	}
	return v.Kinds[i]
}

func (t *Tokenizer) addToken(id int32, text string, k Kind, byText map[string]int32) error {
	switch k {
	case Control, Unknown:
		return nil // never made from text, and without a text of its own
	case UserDefined:
		t.bytes[id] = []byte(text)
		if text != "" {
			t.whole = append(t.whole, wholeToken{text, id})
		}
		return nil
	}
	b, err := fromAlphabet(text)
	if err != nil {
		return fmt.Errorf("token %d: %w", id, err)
	}
	t.bytes[id] = b
	if _, taken := byText[text]; taken {
		return nil
	}
	byText[text] = id
	if len(b) == 1 {
		t.first[b[0]] = id
	}
	return nil
}

func (t *Tokenizer) addMerge(rank int32, m string, byText map[string]int32) error {
	left, right, ok := strings.Cut(m, " ")
	if !ok {
		return fmt.Errorf("merge %d: %q is no pair", rank, m)
	}
	l, okL := byText[left]
	r, okR := byText[right]
	both, okB := byText[left+right]
	if !okL || !okR || !okB {
		return fmt.Errorf("merge %d: %q is made of or makes something that is no token", rank, m)
	}
	if _, twice := t.merges[pair{l, r}]; !twice {
		t.merges[pair{l, r}] = merge{rank, both}
	}
	return nil
}

// Bytes is the token's text, nil for control tokens and for what is no token. The caller
// must not change it.
func (t *Tokenizer) Bytes(token int32) []byte {
	if token < 0 || int(token) >= len(t.bytes) {
		return nil
	}
	return t.bytes[token]
}

// Encode gives text's tokens without BOS. Text that looks like a control token is text.
// Bytes that are not UTF-8 are taken as U+FFFD each; bytes without a token are left out.
func (t *Tokenizer) Encode(text string) []int32 {
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	return t.encodeFrom(text, t.whole, nil)
}

// encodeFrom looks for the user-defined tokens of whole, then splits what is between them.
func (t *Tokenizer) encodeFrom(text string, whole []wholeToken, out []int32) []int32 {
	if len(whole) == 0 {
		return t.encodeWords(text, out)
	}
	for {
		before, after, found := strings.Cut(text, whole[0].text)
		out = t.encodeFrom(before, whole[1:], out)
		if !found {
			return out
		}
		out = append(out, whole[0].token)
		text = after
	}
}

// encodeWords splits a text into words.
func (t *Tokenizer) encodeWords(text string, out []int32) []int32 {
	for text != "" {
		end := len(text)
		if t.digits {
			end = digitLen(text)
		}
		for piece := text[:end]; piece != ""; {
			n := wordLen(piece)
			out = t.encodeWord(piece[:n], out)
			piece = piece[n:]
		}
		text = text[end:]
	}
	return out
}

func replaceInvalid(s string) string {
	var b strings.Builder
	for _, r := range s { // ranging gives U+FFFD for each byte that is not UTF-8
		b.WriteRune(r)
	}
	return b.String()
}
