//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"strings"
	"sync"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// tokenizer is a model's vocabulary. llama.cpp only reads it, so that calls need no thread of
// their own and do not wait for a pass.
type tokenizer struct {
	bytes [][]byte // of each token
	zero  []int32  // what a zero byte becomes

	mu    sync.RWMutex // held to read while the vocabulary may be used
	vocab llama.Vocab  // 0 once it is closed
}

func newTokenizer(vocab llama.Vocab) *tokenizer {
	t := &tokenizer{vocab: vocab, bytes: make([][]byte, llama.VocabNTokens(vocab))}
	for id := range t.bytes {
		t.bytes[id] = piece(vocab, llama.Token(id))
		if len(t.bytes[id]) == 1 && t.bytes[id][0] == 0 {
			t.zero = []int32{int32(id)}
		}
	}
	return t
}

// piece is a token's text; control tokens have none.
func piece(vocab llama.Vocab, id llama.Token) []byte {
	buf := make([]byte, 32)
	n := llama.TokenToPiece(vocab, id, buf, 0, false)
	if n < 0 {
		buf = make([]byte, -n)
		n = llama.TokenToPiece(vocab, id, buf, 0, false)
	}
	return buf[:max(0, n):max(0, n)]
}

// Encode gives text's tokens without BOS. Text that looks like a control token is text. The
// binding ends a text at a zero byte, so that those are put in between.
func (t *tokenizer) Encode(text string) []int32 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.vocab == 0 {
		return nil
	}
	var out []int32
	for i, part := range strings.Split(text, "\x00") {
		if i > 0 {
			out = append(out, t.zero...)
		}
		if part == "" {
			continue
		}
		for _, id := range llama.Tokenize(t.vocab, part, false, false) {
			out = append(out, int32(id))
		}
	}
	return out
}

// Bytes is the token's text, which may be part of a character; control tokens have none.
func (t *tokenizer) Bytes(token int32) []byte {
	if token < 0 || int(token) >= len(t.bytes) {
		return nil
	}
	return t.bytes[token]
}

func (t *tokenizer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vocab = 0
}
