package openai

import (
	"fmt"
	"strings"
	"testing"
)

// A token's way out: once per token per stream.
func BenchmarkDelta(b *testing.B) {
	for _, isChat := range []bool{false, true} {
		b.Run(fmt.Sprintf("chat=%v", isChat), func(b *testing.B) {
			e := NewEncoder(&Request{Chat: isChat, IncludeUsage: true}, "chatcmpl-0123456789abcdef", 1700000000, "kvferry-tiny")
			b.ReportAllocs()
			for b.Loop() {
				e.Delta(Piece{Text: " word"})
			}
		})
	}
}

// A request's way in, with a prompt of 64 KiB.
func BenchmarkDecode(b *testing.B) {
	text := strings.Repeat("some words ", 6000)
	ids := strings.TrimSuffix(strings.Repeat("1234,", 13000), ",")
	for name, body := range map[string]string{
		"text":   fmt.Sprintf(`{"model":"m","prompt":%q}`, text),
		"tokens": fmt.Sprintf(`{"model":"m","prompt":[%s]}`, ids),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeCompletion([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
