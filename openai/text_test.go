package openai

import (
	"encoding/hex"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What Python's decoder and Rust's lossy conversion give for the same bytes: clients compare.
func TestTextOfInvalidBytes(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"", ""},
		{"61", "a"},
		{"ff", "\ufffd"},
		{"e282", "\ufffd"},
		{"e28261", "\ufffda"},
		{"e282ac", "€"},
		{"f09f98", "\ufffd"},
		{"f09f9861", "\ufffda"},
		{"f09f9880", "😀"},
		{"c0af", "\ufffd\ufffd"},
		{"eda080", "\ufffd\ufffd\ufffd"},
		{"f4908080", "\ufffd\ufffd\ufffd\ufffd"},
		{"80bf", "\ufffd\ufffd"},
		{"e2e282ac", "\ufffd€"},
		{"f0e282ac", "\ufffd€"},
		{"f09fe282", "\ufffd\ufffd"},
		{"c3c3a9", "\ufffdé"},
		{"e0809f", "\ufffd\ufffd\ufffd"},
		{"f8888080", "\ufffd\ufffd\ufffd\ufffd"},
		{"e282ff", "\ufffd\ufffd"},
		{"f0808080", "\ufffd\ufffd\ufffd\ufffd"},
		{"efbfbd", "\ufffd"},
	} {
		b, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := Text(b); got != c.want {
			t.Errorf("%s: got %q, want %q", c.bytes, got, c.want)
		}
	}
}

// Bytes from a few that make and break characters, so that most draws have both.
var pieceBytes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) byte {
	return rapid.SampledFrom([]byte("a\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\xff\xc0\xf4\xef\xbf\xbd")).Draw(t, "byte")
}), 0, 6)

// However bytes are cut into tokens, the text is that of the whole, and each piece is whole
// characters.
// req: SERVE-02
func TestTextBufferPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buf TextBuffer
		var whole []byte
		text := ""
		for _, p := range rapid.SliceOf(pieceBytes).Draw(t, "pieces") {
			before := append([]byte{}, p...)
			piece := buf.Push(p)
			if string(before) != string(p) {
				t.Fatal("Push changed its input")
			}
			if !utf8.ValidString(piece) {
				t.Fatalf("piece %q is not valid", piece)
			}
			if buf.Held() > 3 {
				t.Fatalf("%d bytes held", buf.Held())
			}
			whole, text = append(whole, p...), text+piece
			// The caller may use its buffer again.
			clear(p)
		}
		text += buf.Flush()
		if want := Text(whole); text != want {
			t.Fatalf("%x: pieces give %q, the whole %q", whole, text, want)
		}
		if utf8.Valid(whole) && text != string(whole) {
			t.Fatalf("valid text %q became %q", whole, text)
		}
		if buf.Flush() != "" || buf.Held() != 0 {
			t.Fatal("something is held after Flush")
		}
	})
}

func TestTextBufferHoldsBack(t *testing.T) {
	var buf TextBuffer
	for i, want := range []string{"", "", "", "😀", "a"} {
		if got := buf.Push([]byte("😀a")[i : i+1]); got != want {
			t.Errorf("after byte %d: %q, want %q", i, got, want)
		}
	}
}
