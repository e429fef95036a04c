package chat

import (
	"fmt"
	"strings"
	"unicode"
)

// kind is what a part of a template's source is.
type kind int

const (
	text kind = iota
	output
	statement
	comment
)

// closings end a tag.
var closings = map[kind]string{output: "}}", statement: "%}", comment: "#}"}

// part is a text, trimmed, or what stands between a tag's delimiters.
type part struct {
	kind    kind
	content string
}

// tag is a part with the signs that say what to trim beside it.
type tag struct {
	part
	left, right byte // '-', '+' or 0
	after       int  // where the source goes on
}

// scan cuts a template's source into parts, its texts trimmed as Jinja does with trim_blocks and
// lstrip_blocks. Comments are left out, and what is raw is text.
func scan(source string) ([]part, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.TrimSuffix(source, "\n")
	var out []part
	add := func(s string) {
		if s != "" {
			out = append(out, part{text, s})
		}
	}
	lineStart := true // the source that is left begins a line
	for source != "" {
		at := opening(source)
		before := source[:at]
		if at == len(source) {
			add(before)
			break
		}
		t, err := readTag(source[at:])
		if err != nil {
			return nil, err
		}
		add(trimBefore(before, t, lineStart))
		source = source[at+t.after:]
		if t.kind == statement && keyword(t.content) == "raw" {
			raw, rest, begins, err := readRaw(t, source)
			if err != nil {
				return nil, err
			}
			add(raw)
			source, lineStart = rest, begins
			continue
		}
		source, lineStart = trimAfter(source, t)
		if t.kind != comment {
			out = append(out, t.part)
		}
	}
	return out, nil
}

// opening is where the first tag begins.
func opening(s string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], '{')
		if n < 0 || i+n+1 >= len(s) {
			return len(s)
		}
		i += n
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// readTag reads the tag that s begins with. Delimiters in strings or brackets do not end it.
func readTag(s string) (tag, error) {
	t := tag{part: part{kind: output}}
	switch s[1] {
	case '%':
		t.kind = statement
	case '#':
		t.kind = comment
	}
	i := 2
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		t.left = s[i]
		i++
	}
	length := tagLen(s[i:], t.kind)
	if length < 0 {
		return t, fmt.Errorf("a tag is not closed: %.40q", s)
	}
	t.content, t.after = s[i:i+length], i+length+2
	if length > 0 && (t.content[length-1] == '-' || t.content[length-1] == '+') {
		t.right = t.content[length-1]
		t.content = t.content[:length-1]
	}
	if length > maxTag && t.kind != comment {
		return t, fmt.Errorf("a tag of %d bytes is longer than %d", length, maxTag)
	}
	return t, nil
}

// tagLen is how long the tag is in which s begins, -1 if it does not end.
func tagLen(s string, k kind) int {
	if k == comment {
		return strings.Index(s, closings[k])
	}
	open := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'' || c == '"':
			i += quoted(s[i:])
		case open == 0 && strings.HasPrefix(s[i:], closings[k]):
			return i
		case strings.IndexByte("([{", c) >= 0:
			open++
		case strings.IndexByte(")]}", c) >= 0 && open > 0:
			open--
		}
	}
	return -1
}

// quoted is how far the last byte of the string is with which s begins.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i
		}
	}
	return len(s)
}

// trimBefore is what is left of the text before a tag.
func trimBefore(s string, t tag, lineStart bool) string {
	switch {
	case t.left == '-':
		return strings.TrimRightFunc(s, unicode.IsSpace)
	case t.left == '+' || t.kind == output:
		return s
	}
	// A tag that is the first of its line takes what indents it.
	line := strings.LastIndexByte(s, '\n') + 1
	if (line > 0 || lineStart) && strings.TrimLeftFunc(s[line:], unicode.IsSpace) == "" {
		return s[:line]
	}
	return s
}

// trimAfter is what is left of the source after a tag, and whether it begins a line.
func trimAfter(s string, t tag) (rest string, lineStart bool) {
	rest = s
	switch {
	case t.right == '-':
		rest = strings.TrimLeftFunc(s, unicode.IsSpace)
	case t.right == 0 && t.kind != output:
		rest = strings.TrimPrefix(s, "\n")
	}
	taken := s[:len(s)-len(rest)]
	return rest, strings.HasSuffix(taken, "\n")
}

// readRaw reads up to the end of what a raw tag begins.
func readRaw(begin tag, s string) (raw, rest string, lineStart bool, err error) {
	if begin.right == '-' {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	for i := 0; ; i++ {
		n := strings.Index(s[i:], "{%")
		if n < 0 {
			return "", "", false, fmt.Errorf("raw is not closed: %.40q", s)
		}
		i += n
		t, err := readTag(s[i:])
		if err == nil && t.kind == statement && strings.TrimSpace(t.content) == "endraw" {
			rest, lineStart = trimAfter(s[i+t.after:], t)
			return trimBefore(s[:i], t, false), rest, lineStart, nil
		}
	}
}

// keyword is a statement's first word.
func keyword(s string) string {
	s = strings.TrimSpace(s)
	n := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' })
	if n < 0 {
		return s
	}
	return s[:n]
}
