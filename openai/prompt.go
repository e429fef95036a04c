package openai

import (
	"strconv"
	"strings"
)

// promptForms says what a prompt may be.
const promptForms = "must be a string, an array of token IDs, or an array of one of these"

// setPrompt takes a completion's prompt in the four forms of the API. Several prompts in one
// request are refused.
func setPrompt(r *Request, v value) *Error {
	if v.isString() {
		return setPromptText(r, v)
	}
	if !v.isArray() {
		return v.bad(promptForms)
	}
	all := elements(v.raw)
	if len(all) == 0 {
		return v.bad("must not be empty")
	}
	first := value{name: v.name, raw: all[0]}
	if first.isNumber() {
		return setPromptTokens(r, v)
	}
	if !first.isString() && !first.isArray() {
		return v.bad(promptForms)
	}
	if len(all) > 1 {
		return v.bad("holds %d prompts and a request may have one", len(all))
	}
	if first.isString() {
		return setPromptText(r, first)
	}
	return setPromptTokens(r, first)
}

func setPromptText(r *Request, v value) *Error {
	if r.Prompt = unquote(v.raw); r.Prompt == "" {
		return v.bad("must not be empty")
	}
	return nil
}

func setPromptTokens(r *Request, v value) *Error {
	all := elements(v.raw)
	if len(all) == 0 {
		return v.bad("must not be empty")
	}
	r.PromptTokens = make([]int32, len(all))
	for i, raw := range all {
		n, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil || n < 0 {
			return v.bad("has a token ID at index %d that is no integer between 0 and %d", i, maxToken)
		}
		r.PromptTokens[i] = int32(n)
	}
	return nil
}

// JoinMessages is the prompt of a chat for a model without roles: every content, each followed
// by a blank line. As a template: {% for m in messages %}{{ m['content'] }}\n\n{% endfor %}.
func JoinMessages(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Content)
		b.WriteString("\n\n")
	}
	return b.String()
}
