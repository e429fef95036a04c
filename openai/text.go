package openai

import (
	"strings"
	"unicode/utf8"
)

// TextBuffer turns a stream of token bytes into text. A token may end within a character, so
// the bytes of a character that is not whole yet are held back; bytes that cannot become one
// are replaced by U+FFFD, one for each longest run that could have begun a character, as
// Unicode recommends and most decoders do. However the bytes are cut, the pieces put together
// are Text of the whole.
type TextBuffer struct{ held []byte }

// Push takes a token's bytes and gives the text that is whole.
func (t *TextBuffer) Push(b []byte) string {
	in := b
	if len(t.held) > 0 {
		in = append(t.held, b...)
	}
	text, rest := convert(in)
	t.held = append(t.held[:0:0], rest...)
	return text
}

// Held is how many bytes are held back, at most three.
func (t *TextBuffer) Held() int { return len(t.held) }

// Flush gives the bytes held back as what they are at the end of the text: U+FFFD, or
// nothing.
func (t *TextBuffer) Flush() string {
	if len(t.held) == 0 {
		return ""
	}
	t.held = nil
	return string(utf8.RuneError)
}

// Text converts bytes at once.
func Text(b []byte) string {
	text, rest := convert(b)
	if len(rest) > 0 {
		text += string(utf8.RuneError)
	}
	return text
}

// convert gives b's text and the incomplete character at its end.
func convert(b []byte) (text string, rest []byte) {
	var out strings.Builder
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r != utf8.RuneError || n > 1 {
			out.Write(b[i : i+n])
			i += n
			continue
		}
		if !utf8.FullRune(b[i:]) {
			return out.String(), b[i:]
		}
		out.WriteRune(utf8.RuneError)
		i += broken(b[i:])
	}
	return out.String(), nil
}

// broken is the length of the invalid sequence that b begins with: the longest prefix that
// more bytes could have completed, else one byte.
func broken(b []byte) int {
	n := 1
	for n < utf8.UTFMax-1 && n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}
