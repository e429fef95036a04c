package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// The values of an error body's type.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeNotFound       = "not_found_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
	TypeUpstream       = "upstream_error"
	TypePermission     = "permission_error"
)

// The values of an error body's code that this package sets.
const (
	CodeModelNotFound = "model_not_found"
	CodeContextLength = "context_length_exceeded"
	CodeBodyTooLarge  = "body_too_large"
	CodeOverloaded    = "overloaded"
	CodeRateLimit     = "rate_limit_exceeded"
	CodeUpstream      = "upstream_failed"
	CodeUpstreamTime  = "upstream_timeout"
)

// Error is an answer other than 200. Param and Code are empty when there is none.
// SERVE-03
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is for a person; the rest is for programs.
	Message string
	// Type is one of the Type constants, or what a peer sent.
	Type string
	// Param is the offending parameter, nested ones as messages[0].content.
	Param string
	// Code tells errors of one type apart.
	Code string
}

// Error gives status, message and parameter on one line.
func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("%d %s: %s (param %s)", e.Status, e.Type, e.Message, e.Param)
	}
	return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Message)
}

// errorBody is an error on the wire: param and code are null when there is none.
type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// Body is the JSON body of the answer, which is also the payload of a stream's error event.
func (e *Error) Body() []byte {
	var b errorBody
	b.Error.Message, b.Error.Type = e.Message, e.Type
	if e.Param != "" {
		b.Error.Param = &e.Param
	}
	if e.Code != "" {
		b.Error.Code = &e.Code
	}
	return marshal(b)
}

// BadRequest is a 400 about a parameter, or about the whole body when param is empty.
func BadRequest(param, format string, args ...any) *Error {
	return &Error{Status: 400, Type: TypeInvalidRequest, Param: clip(param), Message: fmt.Sprintf(format, args...)}
}

// ModelNotFound is the 404 for a model that is not served here.
func ModelNotFound(model string) *Error {
	return &Error{
		Status: 404, Type: TypeNotFound, Param: "model", Code: CodeModelNotFound,
		Message: fmt.Sprintf("the model %q does not exist", clip(model)),
	}
}

// TooLong is the 400 for a prompt of length tokens where limit is the most. param is prompt
// or messages.
func TooLong(param string, limit, length int) *Error {
	e := BadRequest(param, "%s is %d tokens long and the limit is %d tokens", param, length, limit)
	e.Code = CodeContextLength
	return e
}

// BodyTooLarge is the 413 for a body of more than limit bytes.
func BodyTooLarge(limit int64) *Error {
	return &Error{
		Status: 413, Type: TypeInvalidRequest, Code: CodeBodyTooLarge,
		Message: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
}

// Overloaded is a 429 (this client or queue has too much) or a 503 (nobody can serve now).
// Any other status becomes 503.
func Overloaded(status int, format string, args ...any) *Error {
	e := &Error{Status: 503, Type: TypeServer, Code: CodeOverloaded, Message: fmt.Sprintf(format, args...)}
	if status == 429 {
		e.Status, e.Type, e.Code = 429, TypeRateLimit, CodeRateLimit
	}
	return e
}

// Upstream is a 502 (an engine failed) or a 504 (it did not answer in time), with the reason.
// Any other status becomes 502.
func Upstream(status int, format string, args ...any) *Error {
	e := &Error{Status: 502, Type: TypeUpstream, Code: CodeUpstream, Message: fmt.Sprintf(format, args...)}
	if status == 504 {
		e.Status, e.Code = 504, CodeUpstreamTime
	}
	return e
}

// Forbidden is a 403: who asks may not.
func Forbidden(format string, args ...any) *Error {
	return &Error{Status: 403, Type: TypePermission, Message: fmt.Sprintf(format, args...)}
}

// Internal is a 500: a fault of ours.
func Internal(format string, args ...any) *Error {
	return &Error{Status: 500, Type: TypeServer, Message: fmt.Sprintf(format, args...)}
}

// maxName bounds what an error repeats of a client's own names, in bytes.
const maxName = 96

// clip shortens a name that a client chose, so that an error is never as long as the body
// that it complains of.
func clip(s string) string { return shorten(s, maxName) }

// shorten cuts a text to limit bytes, between characters, and shows that it did.
func shorten(s string, limit int) string {
	const mark = "..."
	if len(s) <= limit {
		return s
	}
	n := limit - len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// marshal encodes one of this package's own types without escaping <, > and &, which are
// common in text and need no escape outside HTML.
func marshal(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// The types hold strings, integers and finite floats only.
		panic("openai: own type does not encode: " + err.Error())
	}
	// Encode ends with a newline.
	return buf.Bytes()[:buf.Len()-1]
}
