package router

import (
	"crypto/sha256"
	"encoding/binary"

	"kvferry/openai"
)

// piece is how much of a conversation's text one link of its chain is of, in bytes.
const piece = 64

// link is the hash of a text's beginning, with its model's name.
type link [16]byte

// Conversation names all beginnings of a request's prompt that are whole pieces, so that a turn
// that continues an earlier one finds it, however long both are.
type Conversation struct {
	text []byte
	// links has the chain: links[i] is of i pieces and the model.
	links []link
}

// ConversationOf is a request's: of a completion's text, of a chat's messages as a model without
// roles reads them, or of token IDs, which are no text.
func ConversationOf(r *openai.Request) Conversation {
	kind, text := byte('t'), []byte(r.Prompt)
	switch {
	case r.Chat:
		text = []byte(openai.JoinMessages(r.Messages))
	case r.PromptTokens != nil:
		kind, text = 'n', make([]byte, 0, 4*len(r.PromptTokens))
		for _, t := range r.PromptTokens {
			text = binary.LittleEndian.AppendUint32(text, uint32(t))
		}
	}
	c := Conversation{text: text, links: make([]link, 1, 1+len(text)/piece)}
	c.links[0] = link{}.next(append([]byte{kind}, r.Model...))
	for at := piece; at <= len(text); at += piece {
		c.links = append(c.links, c.links[len(c.links)-1].next(text[at-piece:at]))
	}
	return c
}

// next is the hash of what l is of and then b.
func (l link) next(b []byte) link {
	h := sha256.New()
	h.Write(l[:])
	h.Write(b)
	return link(h.Sum(nil)[:len(l)])
}

// whole is the last link and what is behind it, less than a piece.
func (c Conversation) whole() (link, []byte) {
	last := len(c.links) - 1
	return c.links[last], c.text[last*piece:]
}
