package openai

// Piece is what one step of generation adds to an answer.
type Piece struct {
	// Text is whole characters; TextBuffer cuts them.
	Text string
	// Tokens are the tokens that the step added, looked at only if the request asked for
	// logprobs.
	Tokens []TokenLogprob
}

// Encoder writes one request's answer in the form that the request wants, so that whoever
// generates has one code path for completions and chats. It is either Full once, or Delta any
// number of times and then Final. What it returns are whole JSON objects.
type Encoder struct {
	req     *Request
	id      string
	created int64
	model   string
	begun   bool
	offsets offsets
}

// NewEncoder begins an answer. id is the answer's (cmpl-... or chatcmpl-...), created in Unix
// seconds, model the name to answer under.
func NewEncoder(req *Request, id string, created int64, model string) *Encoder {
	return &Encoder{req: req, id: id, created: created, model: model}
}

// Delta is the stream event for a piece. The first of a chat carries the role.
func (e *Encoder) Delta(p Piece) []byte {
	if e.req.Chat {
		d := e.delta()
		d.Content = &p.Text
		return e.chatChunk(ChatChunkChoice{Delta: d, Logprobs: e.chatLogprobs(p)})
	}
	return e.completionChunk(CompletionChoice{Text: p.Text, Logprobs: e.completionLogprobs(p)})
}

// Final are the stream's last events before the end mark: the reason, and the usage if the
// request asked for it.
func (e *Encoder) Final(reason FinishReason, usage Usage) [][]byte {
	var out [][]byte
	if e.req.Chat {
		out = append(out, e.chatChunk(ChatChunkChoice{Delta: e.delta(), FinishReason: &reason}))
	} else {
		out = append(out, e.completionChunk(CompletionChoice{FinishReason: &reason}))
	}
	if e.req.IncludeUsage {
		out = append(out, e.usageChunk(usage))
	}
	return out
}

// Full is the answer not streamed; p is all of it.
func (e *Encoder) Full(p Piece, reason FinishReason, usage Usage) []byte {
	return e.FullKV(p, reason, usage, nil)
}

// FullKV is the answer of a prefill leg: what was generated is one token, and the handle of the
// KV that is held goes with it.
func (e *Encoder) FullKV(p Piece, reason FinishReason, usage Usage, kv *KVTransfer) []byte {
	if e.req.Chat {
		return marshal(ChatResponse{
			ID: e.id, Object: ObjectChat, Created: e.created, Model: e.model, Usage: &usage, KVTransfer: kv,
			Choices: []ChatChoice{{
				Message:  ChatMessage{Role: "assistant", Content: p.Text},
				Logprobs: e.chatLogprobs(p), FinishReason: &reason,
			}},
		})
	}
	r := e.completion(CompletionChoice{Text: p.Text, Logprobs: e.completionLogprobs(p), FinishReason: &reason})
	r.Usage, r.KVTransfer = &usage, kv
	return marshal(r)
}

// delta carries the role the first time.
func (e *Encoder) delta() ChatDelta {
	if e.begun {
		return ChatDelta{}
	}
	e.begun = true
	return ChatDelta{Role: "assistant"}
}

func (e *Encoder) chatLogprobs(p Piece) *ChatLogprobs {
	if !e.req.Logprobs {
		return nil
	}
	return chatLogprobs(p.Tokens)
}

func (e *Encoder) completionLogprobs(p Piece) *CompletionLogprobs {
	if !e.req.Logprobs {
		return nil
	}
	return e.offsets.completionLogprobs(p.Tokens, e.req.TopLogprobs)
}

func (e *Encoder) completion(choices ...CompletionChoice) *CompletionResponse {
	return &CompletionResponse{
		ID: e.id, Object: ObjectCompletion, Created: e.created, Model: e.model,
		Choices: append([]CompletionChoice{}, choices...),
	}
}

func (e *Encoder) chat(choices ...ChatChunkChoice) *ChatChunk {
	return &ChatChunk{
		ID: e.id, Object: ObjectChatChunk, Created: e.created, Model: e.model,
		Choices: append([]ChatChunkChoice{}, choices...),
	}
}

// completionChunk encodes a chunk. With include_usage, chunks that have none say null: the
// outer field hides the inner one.
func (e *Encoder) completionChunk(c CompletionChoice) []byte {
	chunk := e.completion(c)
	if !e.req.IncludeUsage {
		return marshal(chunk)
	}
	return marshal(struct {
		*CompletionChunk
		Usage *Usage `json:"usage"`
	}{CompletionChunk: chunk})
}

// chatChunk is completionChunk for chats.
func (e *Encoder) chatChunk(c ChatChunkChoice) []byte {
	chunk := e.chat(c)
	if !e.req.IncludeUsage {
		return marshal(chunk)
	}
	return marshal(struct {
		*ChatChunk
		Usage *Usage `json:"usage"`
	}{ChatChunk: chunk})
}

// usageChunk has no choices.
func (e *Encoder) usageChunk(usage Usage) []byte {
	if e.req.Chat {
		c := e.chat()
		c.Usage = &usage
		return marshal(c)
	}
	c := e.completion()
	c.Usage = &usage
	return marshal(c)
}
