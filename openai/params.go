package openai

import "slices"

// param checks one parameter's value, which is not null, and puts it into the request.
type param func(r *Request, v value) *Error

// commonParams belong to both kinds of request.
//
// Parameters that change nothing here are accepted and ignored: user, metadata,
// safety_identifier, prompt_cache_key, prompt_cache_retention, parallel_tool_calls. Those that
// ask for what is not built are accepted with the value that asks for nothing, which many
// clients send, and refused with any other.
var commonParams = map[string]param{
	"model":          setModel,
	"max_tokens":     setMaxTokens,
	"temperature":    setTemperature,
	"top_p":          setTopP,
	"top_k":          setTopK,
	"seed":           setSeed,
	"stop":           setStop,
	"ignore_eos":     boolean(func(r *Request, b bool) { r.IgnoreEOS = b }),
	"stream":         boolean(func(r *Request, b bool) { r.Stream = b }),
	"logit_bias":     onlyEmpty,
	"stream_options": setStreamOptions,

	"disaggregated_params": setDisagg,
	"kv_transfer_params":   setKVTransfer,

	"n":                  onlyInt(1),
	"min_tokens":         onlyInt(0),
	"presence_penalty":   onlyNumber(0),
	"frequency_penalty":  onlyNumber(0),
	"repetition_penalty": onlyNumber(1),
	"min_p":              onlyNumber(0),
	"use_beam_search":    oneBeam,

	"user": ignoredString,
}

var completionParams = map[string]param{
	"prompt":   setPrompt,
	"logprobs": setCompletionLogprobs,
	"best_of":  onlyInt(1),
	"echo":     onlyFalse,
	"suffix":   onlyEmpty,
}

var chatParams = map[string]param{
	"messages":              setMessages,
	"max_completion_tokens": setMaxTokens,
	"logprobs":              boolean(func(r *Request, b bool) { r.Logprobs = b }),
	"top_logprobs":          setTopLogprobs,

	"response_format":    onlyTextFormat,
	"modalities":         onlyTextModality,
	"tools":              onlyEmpty,
	"functions":          onlyEmpty,
	"tool_choice":        onlyWord("none"),
	"function_call":      onlyWord("none"),
	"service_tier":       onlyWord("auto", "default"),
	"reasoning_effort":   onlyWord("none"),
	"verbosity":          onlyWord("medium"),
	"store":              onlyFalse,
	"audio":              onlyEmpty,
	"prediction":         onlyEmpty,
	"moderation":         onlyEmpty,
	"web_search_options": unsupported,

	"metadata":               ignoredObject,
	"parallel_tool_calls":    boolean(func(*Request, bool) {}),
	"safety_identifier":      ignoredString,
	"prompt_cache_key":       ignoredString,
	"prompt_cache_retention": ignoredString,
}

func lookup(params map[string]param, key string) (param, bool) {
	if p, ok := params[key]; ok {
		return p, true
	}
	p, ok := commonParams[key]
	return p, ok
}

func setModel(r *Request, v value) (err *Error) {
	if r.Model, err = v.string(); err == nil && r.Model == "" {
		return v.bad("must not be empty")
	}
	return err
}

// setMaxTokens takes max_tokens and a chat's newer name for it. Both may be given if they
// agree.
func setMaxTokens(r *Request, v value) *Error {
	n, err := v.int(1, maxTokensLimit)
	if err != nil {
		return err
	}
	if r.MaxTokensSet && r.MaxTokens != int(n) {
		return v.bad("differs from %s", r.MaxTokensParam)
	}
	r.MaxTokens, r.MaxTokensSet, r.MaxTokensParam = int(n), true, v.name
	return nil
}

func setTemperature(r *Request, v value) *Error {
	f, err := v.number()
	if err != nil {
		return err
	}
	if f < 0 || f > MaxTemperature {
		return v.bad("must be between 0 and %g", MaxTemperature)
	}
	r.Temperature = f
	return nil
}

func setTopP(r *Request, v value) *Error {
	f, err := v.number()
	if err != nil {
		return err
	}
	if f <= 0 || f > 1 {
		return v.bad("must be above 0 and at most 1")
	}
	r.TopP = f
	return nil
}

// setTopK takes vLLM's extension, where both -1 and 0 are off.
func setTopK(r *Request, v value) *Error {
	n, err := v.int(-1, maxTopK)
	if err != nil {
		return err
	}
	r.TopK = int(max(n, 0))
	return nil
}

func setSeed(r *Request, v value) *Error {
	n, err := v.int(minSeed, maxSeed)
	if err != nil {
		return err
	}
	r.Seed = &n
	return nil
}

func setStop(r *Request, v value) *Error {
	list := []value{v}
	if v.isArray() {
		list = nil
		for i, raw := range elements(v.raw) {
			list = append(list, v.element(i, raw))
		}
	} else if !v.isString() {
		return v.bad("must be a string or an array of strings")
	}
	if len(list) > MaxStops {
		return v.bad("has %d strings and at most %d are allowed", len(list), MaxStops)
	}
	for _, e := range list {
		s, err := e.string()
		if err != nil {
			return BadRequest(v.name, "%s", err.Message)
		}
		if s == "" {
			return v.bad("must not hold an empty string")
		}
		r.Stop = append(r.Stop, s)
	}
	return nil
}

func setStreamOptions(r *Request, v value) *Error {
	fields, err := v.members()
	if err != nil {
		return err
	}
	for _, m := range fields {
		f := v.field(m)
		if f.isNull() {
			continue
		}
		b, err := f.bool()
		switch m.key {
		case "include_usage":
			r.IncludeUsage = b
		case "include_obfuscation":
			// Padding against traffic analysis, which its sender must not rely on.
		default:
			return f.bad("is not a known stream option")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func setCompletionLogprobs(r *Request, v value) *Error {
	n, err := v.int(0, MaxCompletionLogprobs)
	if err != nil {
		return err
	}
	r.Logprobs, r.TopLogprobs = true, int(n)
	return nil
}

func setTopLogprobs(r *Request, v value) *Error {
	n, err := v.int(0, MaxChatLogprobs)
	if err != nil {
		return err
	}
	r.TopLogprobs = int(n)
	return nil
}

// onlyTextFormat takes {"type":"text"}.
func onlyTextFormat(_ *Request, v value) *Error {
	fields, err := v.members()
	if err != nil {
		return err
	}
	if len(fields) != 1 || fields[0].key != "type" || string(fields[0].raw) != `"text"` {
		return v.bad(`must be {"type":"text"}: other formats are not supported`)
	}
	return nil
}

// onlyTextModality takes ["text"].
func onlyTextModality(_ *Request, v value) *Error {
	if !v.isArray() {
		return v.bad("must be an array of strings")
	}
	if all := elements(v.raw); len(all) != 1 || string(all[0]) != `"text"` {
		return v.bad(`must be ["text"]: other modalities are not supported`)
	}
	return nil
}

func boolean(set func(*Request, bool)) param {
	return func(r *Request, v value) *Error {
		b, err := v.bool()
		if err == nil {
			set(r, b)
		}
		return err
	}
}

func onlyFalse(_ *Request, v value) *Error {
	b, err := v.bool()
	if err == nil && b {
		return v.bad("must be false: it is not supported")
	}
	return err
}

// oneBeam refuses beam search, whose beams share blocks in a way that no chunk describes. // PIPE-23
func oneBeam(_ *Request, v value) *Error {
	b, err := v.bool()
	if err == nil && b {
		return v.bad("must be false: a request has one beam, because KV is handed over in chunks of one sequence")
	}
	return err
}

func onlyInt(want int64) param {
	return func(_ *Request, v value) *Error {
		n, err := v.int(minSeed, maxSeed)
		if err == nil && n != want {
			return v.bad("must be %d: other values are not supported", want)
		}
		return err
	}
}

func onlyNumber(want float64) param {
	return func(_ *Request, v value) *Error {
		f, err := v.number()
		if err == nil && f != want {
			return v.bad("must be %g: other values are not supported", want)
		}
		return err
	}
}

func onlyWord(words ...string) param {
	return func(_ *Request, v value) *Error {
		if v.isString() && slices.Contains(words, unquote(v.raw)) {
			return nil
		}
		return v.bad("must be one of %q: other values are not supported", words)
	}
}

func onlyEmpty(_ *Request, v value) *Error {
	if !v.isEmpty() {
		return v.bad("is not supported")
	}
	return nil
}

func unsupported(_ *Request, v value) *Error { return v.bad("is not supported") }

func ignoredString(_ *Request, v value) *Error {
	_, err := v.string()
	return err
}

func ignoredObject(_ *Request, v value) *Error {
	_, err := v.members()
	return err
}
