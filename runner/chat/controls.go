package chat

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"kvferry/runner"
)

// controls are a model's control tokens.
type controls struct {
	// by has them by the first byte of their texts, the longest first.
	by map[byte][]control
	// heads and tails are the beginnings and the ends that their texts have, but for the whole.
	heads, tails map[string]bool
	longest      int
}

type control struct {
	text  string
	token int32
}

func newControls(all map[string]int32) controls {
	c := controls{by: map[byte][]control{}, heads: map[string]bool{}, tails: map[string]bool{}}
	for text, token := range all {
		if text == "" {
			continue
		}
		c.by[text[0]] = append(c.by[text[0]], control{text, token})
		c.longest = max(c.longest, len(text))
		for cut := 1; cut < len(text); cut++ {
			c.heads[text[:cut]], c.tails[text[cut:]] = true, true
		}
	}
	for _, list := range c.by {
		slices.SortFunc(list, func(a, b control) int { return len(b.text) - len(a.text) })
	}
	return c
}

// first is the longest control token that s begins with.
func (c controls) first(s string) (control, bool) {
	if s == "" {
		return control{}, false
	}
	for _, k := range c.by[s[0]] {
		if strings.HasPrefix(s, k.text) {
			return k, true
		}
	}
	return control{}, false
}

// encode gives the tokens of a rendered text: its control tokens, but not what has a mark in or
// before it, and what is between them, cleared of marks, as any text.
func (c controls) encode(s string, mark rune, tok runner.Tokenizer) (out []int32) {
	m := string(mark)
	flush := func(between string) {
		if between = strings.ReplaceAll(between, m, ""); between != "" {
			out = append(out, tok.Encode(between)...)
		}
	}
	from, marked := 0, false
	for i := 0; i < len(s); {
		if strings.HasPrefix(s[i:], m) {
			i, marked = i+len(m), true
			continue
		}
		k, found := c.first(s[i:])
		if !found || marked {
			i, marked = i+1, false
			continue
		}
		flush(s[from:i])
		out = append(out, k.token)
		i += len(k.text)
		from = i
	}
	flush(s[from:])
	return out
}

// marker puts marks into what messages say.
type marker struct {
	controls controls
	mark     rune
}

// The marks to choose from are Unicode's private characters.
const firstMark, lastMark = 0xe000, 0xf8ff

var errMarks = errors.New("the messages use every private character of Unicode")

// marker chooses a mark that is nowhere yet.
func (c controls) marker(template string, messages []Message) (marker, error) {
	used := map[rune]bool{}
	note := func(s string) {
		for _, r := range s {
			if r >= firstMark && r <= lastMark {
				used[r] = true
			}
		}
	}
	note(template)
	for _, m := range messages {
		note(m.Content)
	}
	for _, list := range c.by {
		for _, k := range list {
			note(k.text)
		}
	}
	for r := rune(firstMark); r <= lastMark; r++ {
		if !used[r] {
			return marker{c, r}, nil
		}
	}
	return marker{}, errMarks
}

func (m marker) all(messages []Message) []Message {
	out := make([]Message, len(messages))
	for i, msg := range messages {
		out[i] = Message{msg.Role, m.text(msg.Content)}
	}
	return out
}

// text puts a mark into whatever is a control token, behind its first character, which even a
// template that cuts something off leaves there, and at the ends that could be a part of one. White
// space stays outside, where templates trim it.
func (m marker) text(s string) string {
	core := strings.TrimLeftFunc(s, unicode.IsSpace)
	lead := s[:len(s)-len(core)]
	core = strings.TrimRightFunc(core, unicode.IsSpace)
	trail := s[len(lead)+len(core):]
	if core == "" {
		return s
	}
	var b strings.Builder
	b.WriteString(lead)
	if m.controls.goesOn(core) {
		b.WriteRune(m.mark)
	}
	for i := 0; i < len(core); {
		_, n := utf8.DecodeRuneInString(core[i:])
		one, more := m.controls.at(core[i:], n)
		if one {
			b.WriteRune(m.mark)
		}
		b.WriteString(core[i : i+n])
		if more {
			b.WriteRune(m.mark)
		}
		i += n
	}
	if m.controls.begins(core) {
		b.WriteRune(m.mark)
	}
	b.WriteString(trail)
	return b.String()
}

// at says whether s begins with a control token of one character, which has so many bytes, and
// whether with one of more.
func (c controls) at(s string, size int) (one, more bool) {
	for _, k := range c.by[s[0]] {
		if strings.HasPrefix(s, k.text) {
			one = one || len(k.text) <= size
			more = more || len(k.text) > size
		}
	}
	return one, more
}

// goesOn says whether s could go on with a control token that stands before it.
func (c controls) goesOn(s string) bool {
	for n := 1; n < c.longest && n <= len(s); n++ {
		if c.tails[s[:n]] {
			return true
		}
	}
	return c.inside(s)
}

// begins says whether s could begin a control token that goes on behind it.
func (c controls) begins(s string) bool {
	for n := 1; n < c.longest && n <= len(s); n++ {
		if c.heads[s[len(s)-n:]] {
			return true
		}
	}
	return c.inside(s)
}

// inside says whether s is a part of a control token.
func (c controls) inside(s string) bool {
	if len(s) >= c.longest {
		return false
	}
	for _, list := range c.by {
		for _, k := range list {
			if len(k.text) > len(s) && strings.Contains(k.text, s) {
				return true
			}
		}
	}
	return false
}
