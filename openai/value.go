package openai

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// value is a parameter's value as its sender wrote it, with the name that errors give.
type value struct {
	name string
	raw  json.RawMessage
}

// field is a value inside v, named v.key.
func (v value) field(m member) value { return value{name: v.name + "." + m.key, raw: m.raw} }

// element is a value inside v, named v[i].
func (v value) element(i int, raw json.RawMessage) value {
	return value{name: fmt.Sprintf("%s[%d]", v.name, i), raw: raw}
}

func (v value) bad(format string, args ...any) *Error {
	return BadRequest(v.name, "%s %s", clip(v.name), fmt.Sprintf(format, args...))
}

func (v value) isNull() bool   { return v.raw[0] == 'n' }
func (v value) isString() bool { return v.raw[0] == '"' }
func (v value) isArray() bool  { return v.raw[0] == '[' }
func (v value) isObject() bool { return v.raw[0] == '{' }
func (v value) isBool() bool   { return v.raw[0] == 't' || v.raw[0] == 'f' }
func (v value) isNumber() bool { return v.raw[0] == '-' || (v.raw[0] >= '0' && v.raw[0] <= '9') }

// isEmpty holds for null, "", [] and {}: what some clients send for a parameter unused.
func (v value) isEmpty() bool {
	switch v.raw[0] {
	case 'n':
		return true
	case '"':
		return len(v.raw) == 2
	case '[', '{':
		return strings.TrimSpace(string(v.raw[1:len(v.raw)-1])) == ""
	}
	return false
}

func (v value) bool() (bool, *Error) {
	if !v.isBool() {
		return false, v.bad("must be a boolean")
	}
	return v.raw[0] == 't', nil
}

func (v value) string() (string, *Error) {
	if !v.isString() {
		return "", v.bad("must be a string")
	}
	return unquote(v.raw), nil
}

// int reads an integer exactly, and refuses one outside lo..hi.
func (v value) int(lo, hi int64) (int64, *Error) {
	if !v.isNumber() || strings.ContainsAny(string(v.raw), ".eE") {
		return 0, v.bad("must be an integer")
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, v.bad("must be between %d and %d", lo, hi)
	}
	return n, nil
}

// number reads a number; one too large for a float64 is infinite, and so fails any range.
func (v value) number() (float64, *Error) {
	if !v.isNumber() {
		return 0, v.bad("must be a number")
	}
	// A syntax error cannot be: the JSON is valid.
	f, _ := strconv.ParseFloat(string(v.raw), 64)
	return f, nil
}

// members splits an object.
func (v value) members() ([]member, *Error) {
	if !v.isObject() {
		return nil, v.bad("must be an object")
	}
	return members(v.raw)
}
