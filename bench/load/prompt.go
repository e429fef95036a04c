package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

// Prompt is one of a file's.
type Prompt struct {
	// Text or Tokens is the prompt.
	Text   string
	Tokens []int32
	// MaxTokens, if not 0, is how long its answer may be.
	MaxTokens int
}

// maxLine is the longest line of a file of prompts, in bytes.
const maxLine = 16 << 20

// ReadPrompts reads a prompt a line. A line that begins with { is JSON: an object with prompt,
// a string or token IDs, and perhaps max_tokens. Empty lines are passed over.
func ReadPrompts(r io.Reader) ([]Prompt, error) {
	var out []Prompt
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p := Prompt{Text: string(line)}
		if line[0] == '{' {
			var err error
			if p, err = jsonPrompt(line); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		out = append(out, p)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("there is no prompt in it")
	}
	return out, nil
}

func jsonPrompt(line []byte) (Prompt, error) {
	var v struct {
		Prompt    json.RawMessage `json:"prompt"`
		MaxTokens int             `json:"max_tokens"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return Prompt{}, err
	}
	p := Prompt{MaxTokens: v.MaxTokens}
	if json.Unmarshal(v.Prompt, &p.Text) != nil && json.Unmarshal(v.Prompt, &p.Tokens) != nil ||
		p.Text == "" && len(p.Tokens) == 0 {
		return Prompt{}, errors.New("prompt: want a string or an array of token IDs that is not empty")
	}
	if p.MaxTokens < 0 {
		return Prompt{}, fmt.Errorf("max_tokens %d: want at least 1", p.MaxTokens)
	}
	return p, nil
}

// question is one request's body but for the model and the form of its answer.
type question struct {
	path string
	body map[string]any
}

// question makes request number i: a function of the options and i alone, so that a load can
// be had again whatever order its requests come in.
func (o Options) question(i int) question {
	r := rand.New(rand.NewPCG(o.Seed, uint64(i)))
	length, answer, seed := o.PromptTokens.draw(r), o.OutputTokens.draw(r), r.Int64N(1<<53)
	var p Prompt
	switch {
	case o.Prompts != nil:
		p = o.Prompts[i%len(o.Prompts)]
	case o.Chat:
		p.Text = words(r, length)
	default:
		p.Tokens = printable(r, length)
	}
	if p.MaxTokens > 0 {
		answer = p.MaxTokens
	}
	q := question{path: "/v1/completions", body: map[string]any{"max_tokens": answer, "temperature": o.Temperature}}
	switch {
	case o.Chat:
		q.path = "/v1/chat/completions"
		q.body["messages"] = []map[string]string{{"role": "user", "content": p.Text}}
	case p.Tokens != nil:
		q.body["prompt"] = p.Tokens
	default:
		q.body["prompt"] = p.Text
	}
	if o.Temperature > 0 {
		q.body["seed"] = seed
	}
	if o.IgnoreEOS {
		q.body["ignore_eos"] = true
	}
	return q
}

func (r Range) draw(rng *rand.Rand) int { return r.Min + rng.IntN(r.Max-r.Min+1) }

// printable is token IDs that every vocabulary has. In one of bytes they print.
func printable(r *rand.Rand, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = ' ' + r.Int32N('~'-' '+1)
	}
	return out
}

// shortWords are a token each in most vocabularies, with the space before.
var shortWords = strings.Fields("the of and to in is it was for on are as with his they at be this from have " +
	"or by one had not but what all were when we there can an your which their said if do will each about how up")

func words(r *rand.Rand, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = shortWords[r.IntN(len(shortWords))]
	}
	return strings.Join(out, " ")
}
