package node

import (
	"time"

	"kvferry/openai"
	"kvferry/runner/chat"
)

// openChat compiles the model's chat template, if its file has one. A template that is not
// supported does not keep the engine from completions.
func (e *Engine) openChat() {
	c := e.run.Model().Chat
	if c.Template == "" {
		return
	}
	if e.chat, e.chatErr = chat.New(c); e.chatErr != nil {
		e.cfg.Log.Warn("the model's chat template cannot be used: chats are refused", "model", e.run.Model().Name, "cause", e.chatErr)
	}
}

// chatTokens is the prompt of a chat: by the model's template or, of a model that has none, the
// messages one after the other.
func (e *Engine) chatTokens(messages []openai.Message) ([]int32, *openai.Error) {
	if e.chatErr != nil {
		return nil, badTemplate(e.chatErr)
	}
	tok := e.run.Tokenizer()
	if e.chat == nil {
		return e.begun(tok.Encode(openai.JoinMessages(messages))), nil
	}
	all := make([]chat.Message, len(messages))
	for i, m := range messages {
		all[i] = chat.Message{Role: m.Role, Content: m.Content}
	}
	tokens, err := e.chat.Tokens(all, tok, time.Now().UTC())
	switch m := e.run.Model(); {
	case err != nil:
		return nil, badTemplate(err)
	case len(tokens) > 0 && m.AddBOS && tokens[0] == m.BOS:
		return tokens, nil // the template wrote it
	}
	return e.begun(tokens), nil
}

// badTemplate is the 400 for messages that the model's template does not take.
func badTemplate(err error) *openai.Error {
	return openai.BadRequest("messages", "the model's chat template does not take these messages: %.300v", err)
}
