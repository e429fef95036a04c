package openai

import (
	"reflect"
	"strings"
	"testing"
)

// req: SERVE-03
func TestPromptForms(t *testing.T) {
	for _, c := range []struct {
		prompt string
		text   string
		tokens []int32
	}{
		{`"a \u00e9\ud83d\ude00"`, "a é😀", nil},
		{`["a"]`, "a", nil},
		{`[1,2,0]`, "", []int32{1, 2, 0}},
		{`[[1, 2147483647]]`, "", []int32{1, 2147483647}},
	} {
		r, err := decodeReplacing(false, "prompt", c.prompt)
		if err != nil {
			t.Errorf("%s: %v", c.prompt, err)
			continue
		}
		if r.Prompt != c.text || !reflect.DeepEqual(r.PromptTokens, c.tokens) {
			t.Errorf("%s: got %q %v", c.prompt, r.Prompt, r.PromptTokens)
		}
	}
	for _, c := range []struct{ prompt, want string }{
		{`""`, "must not be empty"},
		{`[]`, "must not be empty"},
		{`[""]`, "must not be empty"},
		{`[[]]`, "must not be empty"},
		{`["a","b"]`, "holds 2 prompts"},
		{`[[1],[2],[3]]`, "holds 3 prompts"},
		{`7`, "must be a string"},
		{`{"text":"a"}`, "must be a string"},
		{`[null]`, "must be a string"},
		{`[{}]`, "must be a string"},
		{`[1,"a"]`, "index 1"},
		{`[1,null]`, "index 1"},
		{`[1,-1]`, "index 1"},
		{`[1.5]`, "index 0"},
		{`[1e1]`, "index 0"},
		{`[0,0,2147483648]`, "index 2"},
		{`[["a"]]`, "index 0"},
	} {
		checkBad(t, false, "prompt", c.prompt, c.want)
	}
}

// req: SERVE-03
func TestMessages(t *testing.T) {
	r, err := decodeReplacing(true, "messages", `[
		{"role":"system","content":"s"}, {"role":"developer","content":""}, {"content":"u","role":"user","name":"x"},
		{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null,"tool_calls":null,"function_call":null},
		{"role":"user","content":[{"type":"text","text":"one"},{"text":"two","type":"text"}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{{"system", "s"}, {"developer", ""}, {"user", "u"}, {"assistant", "a"}, {"user", "one\ntwo"}}
	if !reflect.DeepEqual(r.Messages, want) {
		t.Errorf("got %q", r.Messages)
	}
}

// req: SERVE-03
func TestBadMessages(t *testing.T) {
	const good = `{"role":"user","content":"hi"}`
	for _, c := range []struct{ messages, param, want string }{
		{`"hi"`, "messages", "must be an array"},
		{`[]`, "messages", "must not be empty"},
		{`["hi"]`, "messages[0]", "must be an object"},
		{`[` + good + `,null]`, "messages[1]", "must be an object"},
		{`[{"content":"hi"}]`, "messages[0].role", "required"},
		{`[{"role":"user"}]`, "messages[0].content", "required"},
		{`[{"role":7,"content":"hi"}]`, "messages[0].role", "must be a string"},
		{`[{"role":"tool","content":"hi"}]`, "messages[0].role", `"tool"`},
		{`[{"role":"robot","content":"hi"}]`, "messages[0].role", `"robot"`},
		{`[` + good + `,{"role":"assistant","content":null}]`, "messages[1].content", "must be a string"},
		{`[{"role":"user","content":7}]`, "messages[0].content", "must be a string"},
		{`[{"role":"user","content":[]}]`, "messages[0].content", "must not be empty"},
		{`[{"role":"user","content":["x"]}]`, "messages[0].content[0]", "must be an object"},
		{`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`, "messages[0].content[0].type", `"image_url"`},
		{`[{"role":"user","content":[{"input_audio":{},"type":"input_audio"}]}]`, "messages[0].content[0].type", `"input_audio"`},
		{`[{"role":"user","content":[{"text":"x"}]}]`, "messages[0].content[0].type", "required"},
		{`[{"role":"user","content":[{"type":"text"}]}]`, "messages[0].content[0].text", "required"},
		{`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":1}]}]`, "messages[0].content[1].text", "must be a string"},
		{`[{"role":"assistant","content":"","tool_calls":[{"id":"x"}]}]`, "messages[0].tool_calls", "not supported"},
		{`[{"role":"user","content":"x","name":7}]`, "messages[0].name", "must be a string"},
		{`[{"role":"user","contents":"x"}]`, "messages[0].contents", "not supported"},
	} {
		_, err := decodeReplacing(true, "messages", c.messages)
		if err == nil || err.Status != 400 || err.Param != c.param || !strings.Contains(err.Message, c.want) {
			t.Errorf("%s: got %v, want %s %s", c.messages, err, c.param, c.want)
		}
	}
}

// The embedded model's template: each content and a blank line.
// req: SERVE-01
func TestJoinMessages(t *testing.T) {
	got := JoinMessages([]Message{{"system", "Be brief."}, {"user", "Hi\n"}, {"assistant", ""}})
	if want := "Be brief.\n\nHi\n\n\n\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
