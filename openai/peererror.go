package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// maxPeerMessage bounds what is kept of a peer's words, in bytes.
const maxPeerMessage = 2048

// peerBody is the union of the error bodies that servers send: OpenAI's, the flat one of older
// vLLM, FastAPI's detail, and a bare string under error.
type peerBody struct {
	peerFields
	Error  json.RawMessage `json:"error"`
	Detail json.RawMessage `json:"detail"`
}

type peerFields struct {
	Message json.RawMessage `json:"message"`
	Type    json.RawMessage `json:"type"`
	Param   json.RawMessage `json:"param"`
	Code    json.RawMessage `json:"code"`
}

// DecodeError reads the body of an answer that was not 200, whatever it looks like: JSON of
// one of the forms in use, or text. A status that is no error's becomes 502.
func DecodeError(status int, body []byte) *Error {
	e := &Error{Status: status}
	if status < 400 || status > 599 {
		e.Status = 502
	}
	var b peerBody
	if json.Unmarshal(body, &b) == nil {
		e.take(b)
	} else if text := strings.TrimSpace(Text(body)); !strings.HasPrefix(text, "<") {
		// What begins with < is a proxy's page for people.
		e.Message = text
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the peer answered with status %d and no reason", status)
	}
	if e.Type == "" {
		e.Type = typeOf(e.Status)
	}
	e.Message = shorten(e.Message, maxPeerMessage)
	e.Type, e.Param, e.Code = clip(e.Type), clip(e.Param), clip(e.Code)
	return e
}

// take fills e from a body that is a JSON object.
func (e *Error) take(b peerBody) {
	f := b.peerFields
	switch {
	case isObject(b.Error):
		var inner peerFields
		if json.Unmarshal(b.Error, &inner) == nil {
			f = inner
		}
	case len(b.Error) > 0 && plain(f.Message) == "":
		f.Message = b.Error
	case len(b.Detail) > 0 && plain(f.Message) == "":
		f.Message = b.Detail
	}
	e.Message, e.Type, e.Param, e.Code = plain(f.Message), plain(f.Type), plain(f.Param), plain(f.Code)
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte("{")) }

// plain is a JSON value as text: a string's content, nothing for null, else the JSON itself.
func plain(raw json.RawMessage) string {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case raw[0] == '"':
		return strings.TrimSpace(unquote(raw))
	}
	return Text(raw)
}

// typeOf is the type of an error whose body does not say.
func typeOf(status int) string {
	switch {
	case status == 404:
		return TypeNotFound
	case status == 429:
		return TypeRateLimit
	case status == 502 || status == 504:
		return TypeUpstream
	case status >= 500:
		return TypeServer
	}
	return TypeInvalidRequest
}

// StreamError says whether a stream event's payload is an error, and reads it. Its status is
// the one that goes with its type, since the stream's own was 200.
func StreamError(payload []byte) (*Error, bool) {
	// Within a JSON string the quotes would be escaped, so other events are told apart
	// without being parsed.
	if !bytes.Contains(payload, []byte(`"error"`)) {
		return nil, false
	}
	var b struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(payload, &b) != nil || len(b.Error) == 0 || string(b.Error) == "null" {
		return nil, false
	}
	e := DecodeError(502, payload)
	e.Status = statusOf(e.Type)
	return e, true
}

// statusOf is the status that goes with a type.
func statusOf(kind string) int {
	switch kind {
	case TypeInvalidRequest:
		return 400
	case TypeNotFound:
		return 404
	case TypeRateLimit:
		return 429
	case TypeServer:
		return 500
	}
	return 502
}
