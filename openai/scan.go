package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// member is one "key": value of an object, the value as its sender wrote it.
type member struct {
	key string
	raw json.RawMessage
}

// object splits a body into its members, in order. Values keep their bytes, so no number
// passes through a float64 (case 16). encoding/json limits the nesting when it validates, and
// nothing here recurses.
func object(body []byte) ([]member, *Error) {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return nil, BadRequest("", "the body is empty, but must be a JSON object")
	}
	if !utf8.Valid(body) {
		return nil, BadRequest("", "the body is not valid JSON: it is not UTF-8")
	}
	if !json.Valid(body) {
		return nil, BadRequest("", "the body is not valid JSON: %s", reason(body))
	}
	if trimmed[0] != '{' {
		return nil, BadRequest("", "the body must be a JSON object")
	}
	return members(trimmed)
}

// reason says where and why a body is not JSON.
func reason(body []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(body, &raw)
	if err == nil {
		return "unknown fault"
	}
	return err.Error()
}

// members splits a valid JSON object. A key given twice is refused: decoders disagree on
// which one counts.
func members(obj json.RawMessage) ([]member, *Error) {
	c := cursor{b: obj, i: 1}
	var out []member
	seen := map[string]struct{}{}
	for !c.at('}') {
		key := unquote(c.item())
		c.at(':')
		if _, twice := seen[key]; twice {
			return nil, BadRequest("", "the body gives %q twice in one object", clip(key))
		}
		seen[key] = struct{}{}
		out = append(out, member{key: key, raw: c.item()})
		c.at(',')
	}
	return out, nil
}

// elements splits a valid JSON array.
func elements(arr json.RawMessage) []json.RawMessage {
	c := cursor{b: arr, i: 1}
	var out []json.RawMessage
	for !c.at(']') {
		out = append(out, c.item())
		c.at(',')
	}
	return out
}

// unquote decodes a valid JSON string.
func unquote(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return string(raw)
	}
	return s
}

// cursor walks over valid JSON.
type cursor struct {
	b []byte
	i int
}

// space passes over white space.
func (c *cursor) space() {
	for c.i < len(c.b) && isSpace(c.b[c.i]) {
		c.i++
	}
}

// at passes over ch if it is next. At the end of the text it holds for any ch, so that loops
// end.
func (c *cursor) at(ch byte) bool {
	c.space()
	if c.i >= len(c.b) {
		return true
	}
	if c.b[c.i] != ch {
		return false
	}
	c.i++
	return true
}

// item passes over one value or key and gives its bytes.
func (c *cursor) item() json.RawMessage {
	c.space()
	start, depth := c.i, 0
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			c.quoted()
		case '{', '[':
			depth++
			c.i++
		case '}', ']':
			depth--
			c.i++
		case ',', ':', ' ', '\t', '\r', '\n':
			c.i++
			continue
		default:
			c.scalar()
		}
		if depth <= 0 {
			break
		}
	}
	return c.b[start:c.i:c.i]
}

// quoted passes over a string.
func (c *cursor) quoted() {
	for c.i++; c.i < len(c.b); c.i++ {
		switch c.b[c.i] {
		case '\\':
			c.i++
		case '"':
			c.i++
			return
		}
	}
}

// scalar passes over a number or a literal.
func (c *cursor) scalar() {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; {
		case ch == ',', ch == ':', ch == ']', ch == '}', isSpace(ch):
			return
		}
		c.i++
	}
}

func isSpace(ch byte) bool { return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n' }
