package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type class int

const (
	space class = iota
	letter
	number
	other
)

func classify(r rune) class {
	switch {
	case unicode.IsSpace(r):
		return space
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	}
	return other
}

// wordLen is the length of the first word of s, which is not empty, by GPT-2's rule:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func wordLen(s string) int {
	if n := contraction(s); n > 0 {
		return n
	}
	start := 0
	if s[0] == ' ' {
		start = 1
	}
	if start < len(s) {
		r, _ := utf8.DecodeRuneInString(s[start:])
		if c := classify(r); c != space {
			return start + runLen(s[start:], c)
		}
	}
	n := runLen(s, space)
	if n == len(s) {
		return n
	}
	// The last space of a run belongs to the word after it, if the run leaves any before.
	if _, last := utf8.DecodeLastRuneInString(s[:n]); last < n {
		return n - last
	}
	return n
}

// digitLen is the length of the digit that s begins with or else of all before the next one.
func digitLen(s string) int {
	for i, r := range s {
		switch {
		case classify(r) != number:
		case i == 0:
			return utf8.RuneLen(r)
		default:
			return i
		}
	}
	return len(s)
}

var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

func contraction(s string) int {
	if s[0] != '\'' {
		return 0
	}
	for _, c := range contractions {
		if strings.HasPrefix(s, c) {
			return len(c)
		}
	}
	return 0
}

// runLen is the length of the characters of class c that s begins with.
func runLen(s string, c class) int {
	for i, r := range s {
		if classify(r) != c {
			return i
		}
	}
	return len(s)
}
