package openai

import "math"

// What a request that does not say gets.
const (
	// DefaultCompletionTokens is max_tokens of a completion, as in OpenAI's API.
	DefaultCompletionTokens = 16
	// DefaultChatTokens is max_tokens of a chat answer. OpenAI's API has no limit there; ours
	// keeps an answer without one from filling the context.
	DefaultChatTokens = 256
	// DefaultTemperature and DefaultTopP sample from the model's own distribution.
	DefaultTemperature = 1.0
	DefaultTopP        = 1.0
)

// The limits of parameters.
const (
	MaxTemperature              = 2.0
	MaxStops                    = 4
	MaxCompletionLogprobs       = 5
	MaxChatLogprobs             = 20
	maxTokensLimit              = math.MaxInt32
	maxTopK                     = math.MaxInt32
	maxToken                    = math.MaxInt32
	minSeed, maxSeed      int64 = math.MinInt64, math.MaxInt64
)

// Request is a completion or a chat request, checked and with its defaults filled in. What
// depends on the model (does it exist, does the prompt fit, is a token in the vocabulary) is
// still to be checked. SERVE-03
type Request struct {
	// Chat says which of the two it is: Messages, or Prompt and PromptTokens.
	Chat  bool
	Model string

	// Prompt is a completion's text, not empty, unless it came as tokens.
	Prompt string
	// PromptTokens is a completion's prompt as token IDs from 0 up, nil if it came as text.
	PromptTokens []int32
	// Messages is a chat's history, at least one.
	Messages []Message

	// MaxTokens is the most tokens to generate, at least 1.
	MaxTokens int
	// MaxTokensSet says that the client gave MaxTokens; a default may be cut to what fits.
	MaxTokensSet bool
	// MaxTokensParam is the name under which a client gives MaxTokens, for errors.
	MaxTokensParam string

	// Temperature is from 0 (greedy) to MaxTemperature.
	Temperature float64
	// TopP is above 0; 1 is off.
	TopP float64
	// TopK is 0 for off; it may exceed the vocabulary.
	TopK int
	// Seed is nil if the client gave none.
	Seed *int64
	// Stop has at most MaxStops strings, none empty.
	Stop []string
	// IgnoreEOS goes on after the end token.
	IgnoreEOS bool

	// Logprobs asks for the logprob of every token, and TopLogprobs for those of so many
	// alternatives (0 for none).
	Logprobs    bool
	TopLogprobs int

	Stream bool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool

	// Disagg and KV are what a router says to an engine, of which it says at most one; nil from
	// a client. A router refuses both.
	Disagg *Disagg
	KV     *KVTransfer
}

// DecodeCompletion decodes the body of POST /v1/completions.
func DecodeCompletion(body []byte) (*Request, *Error) {
	r := &Request{MaxTokens: DefaultCompletionTokens, MaxTokensParam: "max_tokens"}
	if err := r.decode(body, completionParams); err != nil {
		return nil, err
	}
	if r.Prompt == "" && r.PromptTokens == nil {
		return nil, BadRequest("prompt", "prompt is required")
	}
	return r, nil
}

// DecodeChat decodes the body of POST /v1/chat/completions.
func DecodeChat(body []byte) (*Request, *Error) {
	r := &Request{Chat: true, MaxTokens: DefaultChatTokens, MaxTokensParam: "max_tokens"}
	if err := r.decode(body, chatParams); err != nil {
		return nil, err
	}
	if r.Messages == nil {
		return nil, BadRequest("messages", "messages is required")
	}
	if r.TopLogprobs > 0 && !r.Logprobs {
		return nil, BadRequest("top_logprobs", "top_logprobs needs logprobs to be true")
	}
	return r, nil
}

// decode applies each parameter of the body, in the body's order, then what concerns several.
// A null is a parameter not given.
func (r *Request) decode(body []byte, params map[string]param) *Error {
	r.Temperature, r.TopP = DefaultTemperature, DefaultTopP
	all, err := object(body)
	if err != nil {
		return err
	}
	streamOptions := false
	for _, m := range all {
		set, ok := lookup(params, m.key)
		if !ok {
			return BadRequest(m.key, "unknown parameter %q", clip(m.key))
		}
		v := value{name: m.key, raw: m.raw}
		if v.isNull() {
			continue
		}
		if err := set(r, v); err != nil {
			return err
		}
		streamOptions = streamOptions || m.key == "stream_options"
	}
	if r.Model == "" {
		return BadRequest("model", "model is required")
	}
	if r.Disagg != nil && r.KV != nil {
		return BadRequest(kvParam, "%s and %s exclude each other", kvParam, disaggParam)
	}
	if streamOptions && !r.Stream {
		return BadRequest("stream_options", "stream_options needs stream to be true")
	}
	return nil
}
