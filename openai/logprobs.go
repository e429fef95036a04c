package openai

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TokenLogprob is one generated token.
type TokenLogprob struct {
	// Bytes is the token's text, maybe part of a character.
	Bytes []byte
	// Logprob is the natural logarithm of the token's probability.
	Logprob float64
	// Top are the likeliest tokens at this place, likeliest first, as many as asked for.
	Top []Alternative
}

// Alternative is a token that could have been generated.
type Alternative struct {
	Bytes   []byte
	Logprob float64
}

// minLogprob stands for a probability of nothing, since JSON has no infinity. It is the value
// that other servers use.
const minLogprob = -9999.0

// finite makes a logprob one that JSON can say.
func finite(f float64) float64 {
	if math.IsNaN(f) || f < minLogprob {
		return minLogprob
	}
	return min(f, 0)
}

// CompletionLogprobs is a completion's form: one entry a token in each list.
type CompletionLogprobs struct {
	// Tokens are the tokens' texts; one that is no whole text is written as bytes:\xe2\x82, so
	// that tokens stay distinct.
	Tokens        []string  `json:"tokens"`
	TokenLogprobs []float64 `json:"token_logprobs"`
	// TopLogprobs is null when no alternatives were asked for.
	TopLogprobs []map[string]float64 `json:"top_logprobs"`
	// TextOffset is where in the answer's text the token begins, in characters.
	TextOffset []int `json:"text_offset"`
}

// ChatLogprobs is a chat's form.
type ChatLogprobs struct {
	Content []ChatTokenLogprob `json:"content"`
	Refusal []ChatTokenLogprob `json:"refusal"`
}

// ChatTokenLogprob is one token of a chat answer.
type ChatTokenLogprob struct {
	ChatAlternative
	TopLogprobs []ChatAlternative `json:"top_logprobs"`
}

// ChatAlternative is a token with its logprob. Token is text for reading; Bytes is exact.
type ChatAlternative struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// chatLogprobs is the chat's form of tokens.
func chatLogprobs(tokens []TokenLogprob) *ChatLogprobs {
	out := &ChatLogprobs{Content: []ChatTokenLogprob{}}
	for _, t := range tokens {
		c := ChatTokenLogprob{
			ChatAlternative: chatAlternative(t.Bytes, t.Logprob),
			TopLogprobs:     []ChatAlternative{},
		}
		for _, a := range t.Top {
			c.TopLogprobs = append(c.TopLogprobs, chatAlternative(a.Bytes, a.Logprob))
		}
		out.Content = append(out.Content, c)
	}
	return out
}

func chatAlternative(b []byte, logprob float64) ChatAlternative {
	list := make([]int, len(b))
	for i, c := range b {
		list[i] = int(c)
	}
	return ChatAlternative{Token: Text(b), Logprob: finite(logprob), Bytes: list}
}

// offsets follows where in the answer's text tokens begin.
type offsets struct {
	chars int
	text  TextBuffer
}

// next is the place of a token with these bytes. One that begins within a character has that
// character's place.
func (o *offsets) next(b []byte) int {
	at := o.chars
	o.chars += utf8.RuneCountInString(o.text.Push(b))
	return at
}

// completionLogprobs is the completion's form of tokens.
func (o *offsets) completionLogprobs(tokens []TokenLogprob, top int) *CompletionLogprobs {
	out := &CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []float64{}, TextOffset: []int{}}
	if top > 0 {
		out.TopLogprobs = []map[string]float64{}
	}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, tokenName(t.Bytes))
		out.TokenLogprobs = append(out.TokenLogprobs, finite(t.Logprob))
		out.TextOffset = append(out.TextOffset, o.next(t.Bytes))
		if top > 0 {
			out.TopLogprobs = append(out.TopLogprobs, topByName(t.Top))
		}
	}
	return out
}

// topByName maps names to logprobs. Of tokens with one text (control tokens have none) the
// likeliest stays.
func topByName(top []Alternative) map[string]float64 {
	out := make(map[string]float64, len(top))
	for _, a := range top {
		name, p := tokenName(a.Bytes), finite(a.Logprob)
		if old, ok := out[name]; !ok || p > old {
			out[name] = p
		}
	}
	return out
}

// tokenName is a token's text, or its bytes spelled out.
func tokenName(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.WriteString("bytes:")
	for _, c := range b {
		s.WriteString(`\x`)
		s.WriteString(strconv.FormatUint(uint64(c>>4), 16))
		s.WriteString(strconv.FormatUint(uint64(c&15), 16))
	}
	return s.String()
}
