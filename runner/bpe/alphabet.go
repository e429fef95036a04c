package bpe

import "fmt"

// GPT-2 writes each byte as a printable character: the printable bytes of Latin-1 as
// themselves, and the other 68, in order, as the characters from U+0100 on.
var alphabet, fromRune = func() (a [256]rune, m map[rune]byte) {
	m = make(map[rune]byte, 256)
	next := rune(0x100)
	for i := range a {
		b := rune(i)
		printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		if !printable {
			b = next
			next++
		}
		a[i] = b
		m[b] = byte(i)
	}
	return a, m
}()

// Spell writes bytes in GPT-2's alphabet, as vocabularies hold them.
func Spell(b []byte) string {
	out := make([]rune, len(b))
	for i, c := range b {
		out[i] = alphabet[c]
	}
	return string(out)
}

func fromAlphabet(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		b, ok := fromRune[r]
		if !ok {
			return nil, fmt.Errorf("%q is not written in GPT-2's byte alphabet", s)
		}
		out = append(out, b)
	}
	return out, nil
}
