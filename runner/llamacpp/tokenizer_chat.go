//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"github.com/hybridgroup/yzma/pkg/llama"

	"kvferry/runner"
)

// chatOf is what a model file says of chats. Of two control tokens with one text, the first counts.
func chatOf(weights llama.Model, vocab llama.Vocab) runner.Chat {
	// Asked for a template, llama.cpp could name one of its own instead.
	source, _ := llama.ModelMetaValStr(weights, "tokenizer.chat_template")
	c := runner.Chat{Template: source, Control: map[string]int32{}}
	for id := range llama.VocabNTokens(vocab) {
		if llama.VocabGetAttr(vocab, llama.Token(id))&(llama.TokenAttrControl|llama.TokenAttrUnknown) == 0 {
			continue
		}
		text := llama.VocabGetText(vocab, llama.Token(id))
		if _, taken := c.Control[text]; !taken {
			c.Control[text] = id
		}
	}
	if id := llama.VocabBOS(vocab); id >= 0 {
		c.BOS = llama.VocabGetText(vocab, id)
	}
	if id := llama.VocabEOS(vocab); id >= 0 {
		c.EOS = llama.VocabGetText(vocab, id)
	}
	return c
}
