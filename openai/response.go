package openai

// FinishReason says why an answer ended.
type FinishReason string

// The reasons.
const (
	// FinishStop is an end token or a stop string.
	FinishStop FinishReason = "stop"
	// FinishLength is max_tokens or the end of the context.
	FinishLength FinishReason = "length"
)

// The values of object in answers.
const (
	ObjectCompletion = "text_completion"
	ObjectChat       = "chat.completion"
	ObjectChatChunk  = "chat.completion.chunk"
	ObjectModel      = "model"
	ObjectList       = "list"
)

// Usage counts tokens.
type Usage struct {
	PromptTokens        int           `json:"prompt_tokens"`
	CompletionTokens    int           `json:"completion_tokens"`
	TotalTokens         int           `json:"total_tokens"`
	PromptTokensDetails PromptDetails `json:"prompt_tokens_details"`
}

// PromptDetails says how many of the prompt's tokens were in a cache.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// NewUsage fills in the total.
func NewUsage(prompt, completion, cached int) Usage {
	return Usage{
		PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion,
		PromptTokensDetails: PromptDetails{CachedTokens: cached},
	}
}

// CompletionResponse is the answer of /v1/completions.
type CompletionResponse struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []CompletionChoice `json:"choices"`
	// Usage is nil in all chunks of a stream but one.
	Usage *Usage `json:"usage,omitempty"`
	// KVTransfer is nil but in a prefill leg's answer.
	KVTransfer *KVTransfer `json:"kv_transfer_params,omitempty"`
}

// CompletionChunk is one event of a completion's stream: it looks like the whole answer.
type CompletionChunk = CompletionResponse

// CompletionChoice is a completion, or a piece of one.
type CompletionChoice struct {
	Index    int                 `json:"index"`
	Text     string              `json:"text"`
	Logprobs *CompletionLogprobs `json:"logprobs"`
	// FinishReason is nil in all chunks of a stream but the last with a choice.
	FinishReason *FinishReason `json:"finish_reason"`
}

// ChatResponse is the answer of /v1/chat/completions.
type ChatResponse struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices"`
	Usage   *Usage       `json:"usage,omitempty"`
	// KVTransfer is nil but in a prefill leg's answer.
	KVTransfer *KVTransfer `json:"kv_transfer_params,omitempty"`
}

// ChatChoice is a chat answer.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      ChatMessage   `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *FinishReason `json:"finish_reason"`
}

// ChatMessage is a message that a model wrote.
type ChatMessage struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

// ChatChunk is one event of a chat's stream.
type ChatChunk struct {
	ID      string            `json:"id"`
	Object  string            `json:"object"`
	Created int64             `json:"created"`
	Model   string            `json:"model"`
	Choices []ChatChunkChoice `json:"choices"`
	// Usage is nil in all chunks but one.
	Usage *Usage `json:"usage,omitempty"`
}

// ChatChunkChoice is a piece of a chat answer.
type ChatChunkChoice struct {
	Index        int           `json:"index"`
	Delta        ChatDelta     `json:"delta"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *FinishReason `json:"finish_reason"`
}

// ChatDelta is what a piece adds: the role in the first, content in all but the last.
type ChatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// ModelList is the answer of /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model is a model that is served.
type Model struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	// Created is in Unix seconds.
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// MaxModelLen is the longest sequence in tokens, vLLM's extension; 0 if not known.
	MaxModelLen int `json:"max_model_len,omitempty"`
}

// NewModelList makes the list; the models' Object is filled in.
func NewModelList(models ...Model) ModelList {
	list := ModelList{Object: ObjectList, Data: []Model{}}
	for _, m := range models {
		m.Object = ObjectModel
		list.Data = append(list.Data, m)
	}
	return list
}
