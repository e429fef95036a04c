package bpe

import (
	"slices"
	"testing"
)

// The words of GPT-2's rule, each line one part of it.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"Hello world":               {"Hello", " world"},
		"it's we're I'll I'M":       {"it", "'s", " we", "'re", " I", "'ll", " I", "'", "M"},
		"don't 'tis o'clock":        {"don", "'t", " '", "tis", " o", "'", "clock"},
		"x1y22 333":                 {"x", "1", "y", "22", " 333"},
		"a,b! -- ??":                {"a", ",", "b", "!", " --", " ??"},
		"  a":                       {" ", " a"},
		"a   b  ":                   {"a", "  ", " b", "  "},
		"\n\n x":                    {"\n\n", " x"},
		"a\n\nb":                    {"a", "\n", "\n", "b"},
		"a \n":                      {"a", " \n"},
		" \u2003x":                  {" ", "\u2003", "x"},
		"\u3000\u3000\u3000x":       {"\u3000\u3000", "\u3000", "x"},
		"caf\u00e9 cafe\u0301":      {"caf\u00e9", " cafe", "\u0301"},
		"\u4f60\u597d\uff0c3\u2167": {"\u4f60\u597d", "\uff0c", "3\u2167"},
		"\U0001f600\U0001f600a":     {"\U0001f600\U0001f600", "a"},
		" ":                         {" "},
		"'":                         {"'"},
	} {
		var got []string
		for rest := text; rest != ""; {
			n := wordLen(rest)
			got = append(got, rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: words %q, want %q", text, got, want)
		}
	}
}

// Where every digit is a word, the space before one is a word too.
func TestDigits(t *testing.T) {
	for text, want := range map[string][]string{
		"a12 345b":      {"a", "1", "2", " ", "3", "4", "5", "b"},
		"9":             {"9"},
		" 9 x":          {" ", "9", " x"},
		"3\u2167\u0663": {"3", "\u2167", "\u0663"},
		"no digits":     {"no digits"},
	} {
		var got []string
		for rest := text; rest != ""; {
			n := digitLen(rest)
			got = append(got, rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: pieces %q, want %q", text, got, want)
		}
	}
}

func TestAlphabet(t *testing.T) {
	// The space is the best known letter of the alphabet, the newline the next.
	for b, want := range map[byte]string{' ': "\u0120", '\n': "\u010a", 'a': "a", '~': "~", 0x7f: "\u0121", 0xa0: "\u0142", 0xad: "\u0143", 0xff: "\u00ff"} {
		if got := Spell([]byte{b}); got != want {
			t.Errorf("byte %#x is spelt %q, want %q", b, got, want)
		}
	}
	for b := range 256 {
		back, err := fromAlphabet(Spell([]byte{byte(b)}))
		if err != nil || len(back) != 1 || back[0] != byte(b) {
			t.Errorf("byte %#x comes back as %v, %v", b, back, err)
		}
	}
}
