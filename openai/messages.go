package openai

import (
	"slices"
	"strings"
)

// Message is one message of a chat.
type Message struct {
	// Role is one of Roles.
	Role string
	// Content is the text; of several text parts, joined by newlines.
	Content string
}

// Roles are those that a message may have. Without tools there are no tool messages.
var Roles = []string{"system", "developer", "user", "assistant"}

func setMessages(r *Request, v value) *Error {
	if !v.isArray() {
		return v.bad("must be an array")
	}
	all := elements(v.raw)
	if len(all) == 0 {
		return v.bad("must not be empty")
	}
	r.Messages = make([]Message, 0, len(all))
	for i, raw := range all {
		m, err := message(v.element(i, raw))
		if err != nil {
			return err
		}
		r.Messages = append(r.Messages, m)
	}
	return nil
}

// message decodes one message. Fields that an answer of ours (or anybody's) has beside role and
// content may come back in a history, as long as they are empty.
func message(v value) (Message, *Error) {
	fields, err := v.members()
	if err != nil {
		return Message{}, err
	}
	var m Message
	content := false
	for _, f := range fields {
		fv := v.field(f)
		switch f.key {
		case "role":
			m.Role, err = role(fv)
		case "content":
			content = true
			m.Content, err = contentText(fv)
		case "name":
			if !fv.isNull() {
				_, err = fv.string()
			}
		case "refusal", "annotations", "audio", "tool_calls", "function_call":
			err = onlyEmpty(nil, fv)
		default:
			err = fv.bad("is not supported")
		}
		if err != nil {
			return Message{}, err
		}
	}
	if m.Role == "" {
		return Message{}, BadRequest(v.name+".role", "%s.role is required", v.name)
	}
	if !content {
		return Message{}, BadRequest(v.name+".content", "%s.content is required", v.name)
	}
	return m, nil
}

func role(v value) (string, *Error) {
	s, err := v.string()
	if err != nil {
		return "", err
	}
	if !slices.Contains(Roles, s) {
		return "", v.bad("is %q, and must be one of %q", clip(s), Roles)
	}
	return s, nil
}

// contentText takes a string or an array of text parts.
func contentText(v value) (string, *Error) {
	if v.isString() {
		return unquote(v.raw), nil
	}
	if !v.isArray() {
		return "", v.bad("must be a string or an array of text parts")
	}
	var texts []string
	for i, raw := range elements(v.raw) {
		s, err := partText(v.element(i, raw))
		if err != nil {
			return "", err
		}
		texts = append(texts, s)
	}
	if texts == nil {
		return "", v.bad("must not be empty")
	}
	return strings.Join(texts, "\n"), nil
}

// partText takes {"type":"text","text":...}.
func partText(v value) (string, *Error) {
	fields, err := v.members()
	if err != nil {
		return "", err
	}
	kind, text, hasText := "", "", false
	for _, f := range fields {
		fv := v.field(f)
		switch f.key {
		case "type":
			kind, err = fv.string()
			if err == nil && kind != "text" {
				err = fv.bad("is %q, and only text parts are supported", clip(kind))
			}
		case "text":
			hasText = true
			text, err = fv.string()
		default:
			// A part of another type has its own fields; type may come after them.
			continue
		}
		if err != nil {
			return "", err
		}
	}
	if kind == "" {
		return "", BadRequest(v.name+".type", "%s.type is required", v.name)
	}
	if !hasText {
		return "", BadRequest(v.name+".text", "%s.text is required", v.name)
	}
	return text, nil
}
