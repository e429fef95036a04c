package openai

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// completion and chat give a body with one more parameter, as key:value text.
func completion(extra string) string {
	return join(`{"model":"m","prompt":"p"`, extra)
}

func chat(extra string) string {
	return join(`{"model":"m","messages":[{"role":"user","content":"hi"}]`, extra)
}

func join(head, extra string) string {
	if extra == "" {
		return head + "}"
	}
	return head + "," + extra + "}"
}

func mustDecode(t *testing.T, isChat bool, extra string) *Request {
	t.Helper()
	r, err := decodeEither(isChat, extra)
	if err != nil {
		t.Fatalf("%s: %v", extra, err)
	}
	return r
}

func decodeEither(isChat bool, extra string) (*Request, *Error) {
	if isChat {
		return DecodeChat([]byte(chat(extra)))
	}
	return DecodeCompletion([]byte(completion(extra)))
}

func seed(n int64) *int64 { return &n }

// req: SERVE-03
func TestDefaults(t *testing.T) {
	r := mustDecode(t, false, "")
	want := &Request{
		Model: "m", Prompt: "p", MaxTokens: 16, MaxTokensParam: "max_tokens",
		Temperature: 1, TopP: 1,
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("completion is %+v", r)
	}
	r = mustDecode(t, true, "")
	want = &Request{
		Chat: true, Model: "m", Messages: []Message{{Role: "user", Content: "hi"}},
		MaxTokens: 256, MaxTokensParam: "max_tokens", Temperature: 1, TopP: 1,
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("chat is %+v", r)
	}
}

// Values that are taken, and what they become. both is for parameters of both APIs.
// req: SERVE-03
func TestGoodParameters(t *testing.T) {
	const both, comp, cht = "both", "completion", "chat"
	for _, c := range []struct {
		api, extra string
		want       func(r *Request) bool
	}{
		{both, `"max_tokens":7`, func(r *Request) bool { return r.MaxTokens == 7 && r.MaxTokensSet }},
		{both, `"max_tokens":2147483647`, func(r *Request) bool { return r.MaxTokens == math.MaxInt32 }},
		{cht, `"max_completion_tokens":7`, func(r *Request) bool {
			return r.MaxTokens == 7 && r.MaxTokensSet && r.MaxTokensParam == "max_completion_tokens"
		}},
		{cht, `"max_tokens":7,"max_completion_tokens":7`, func(r *Request) bool { return r.MaxTokens == 7 }},
		{both, `"temperature":0`, func(r *Request) bool { return r.Temperature == 0 }},
		{both, `"temperature":2.0`, func(r *Request) bool { return r.Temperature == 2 }},
		{both, `"temperature":7e-1`, func(r *Request) bool { return r.Temperature == 0.7 }},
		{both, `"top_p":1`, func(r *Request) bool { return r.TopP == 1 }},
		{both, `"top_p":0.001`, func(r *Request) bool { return r.TopP == 0.001 }},
		{both, `"top_k":40`, func(r *Request) bool { return r.TopK == 40 }},
		{both, `"top_k":-1`, func(r *Request) bool { return r.TopK == 0 }},
		{both, `"top_k":0`, func(r *Request) bool { return r.TopK == 0 }},
		{both, `"stop":"x"`, func(r *Request) bool { return reflect.DeepEqual(r.Stop, []string{"x"}) }},
		{both, `"stop":["x","\u00e9\n"]`, func(r *Request) bool { return reflect.DeepEqual(r.Stop, []string{"x", "é\n"}) }},
		{both, `"stop":[]`, func(r *Request) bool { return r.Stop == nil }},
		{both, `"stop":["a","b","c","d"]`, func(r *Request) bool { return len(r.Stop) == 4 }},
		{both, `"ignore_eos":true`, func(r *Request) bool { return r.IgnoreEOS }},
		{both, `"stream":true`, func(r *Request) bool { return r.Stream && !r.IncludeUsage }},
		{both, `"stream_options":{"include_usage":true},"stream":true`, func(r *Request) bool { return r.IncludeUsage }},
		{both, `"stream_options":{"include_usage":null,"include_obfuscation":false},"stream":true`, func(r *Request) bool { return !r.IncludeUsage }},
		{comp, `"logprobs":0`, func(r *Request) bool { return r.Logprobs && r.TopLogprobs == 0 }},
		{comp, `"logprobs":5`, func(r *Request) bool { return r.Logprobs && r.TopLogprobs == 5 }},
		{cht, `"logprobs":true`, func(r *Request) bool { return r.Logprobs && r.TopLogprobs == 0 }},
		{cht, `"top_logprobs":20,"logprobs":true`, func(r *Request) bool { return r.Logprobs && r.TopLogprobs == 20 }},
		{cht, `"logprobs":false,"top_logprobs":0`, func(r *Request) bool { return !r.Logprobs }},
	} {
		for _, isChat := range []bool{false, true} {
			if (c.api == comp && isChat) || (c.api == cht && !isChat) {
				continue
			}
			if r := mustDecode(t, isChat, c.extra); !c.want(r) {
				t.Errorf("chat %v, %s: got %+v", isChat, c.extra, r)
			}
		}
	}
}

// What many clients send without meaning anything by it changes nothing.
// req: SERVE-03
func TestHarmlessParameters(t *testing.T) {
	common := []string{
		`"n":1`, `"min_tokens":0`, `"presence_penalty":0`, `"frequency_penalty":0.0`, `"repetition_penalty":1.0`,
		`"min_p":0`, `"use_beam_search":false`, `"logit_bias":{}`, `"logit_bias":{ }`, `"user":"u"`,
	}
	nulls := []string{
		"max_tokens", "temperature", "top_p", "top_k", "seed", "stop", "ignore_eos", "stream", "stream_options",
		"logit_bias", "disaggregated_params", "n", "min_tokens", "presence_penalty", "frequency_penalty",
		"repetition_penalty", "user", "logprobs",
	}
	for _, n := range nulls {
		common = append(common, fmt.Sprintf("%q:null", n))
	}
	onlyCompletion := []string{`"best_of":1`, `"best_of":null`, `"echo":false`, `"echo":null`, `"suffix":""`, `"suffix":null`}
	onlyChat := []string{
		`"max_completion_tokens":null`, `"top_logprobs":null`, `"response_format":{"type":"text"}`, `"response_format":null`,
		`"modalities":["text"]`, `"tools":[]`, `"tools":null`, `"functions":[]`, `"tool_choice":"none"`, `"function_call":"none"`,
		`"service_tier":"auto"`, `"service_tier":"default"`, `"reasoning_effort":"none"`, `"verbosity":"medium"`, `"store":false`,
		`"audio":null`, `"prediction":null`, `"web_search_options":null`, `"moderation":null`, `"metadata":{"a":"b"}`,
		`"parallel_tool_calls":true`, `"safety_identifier":"s"`, `"prompt_cache_key":"k"`, `"prompt_cache_retention":"24h"`,
	}
	for _, isChat := range []bool{false, true} {
		plain := mustDecode(t, isChat, "")
		for _, extra := range append(common, pick(isChat, onlyChat, onlyCompletion)...) {
			if r := mustDecode(t, isChat, extra); !reflect.DeepEqual(r, plain) {
				t.Errorf("%s changes the request: %+v", extra, r)
			}
		}
	}
}

func pick(cond bool, a, b []string) []string {
	if cond {
		return a
	}
	return b
}

// Every parameter refused: the error is a 400 that names it. Lines are parameter, value, and
// what the message says.
// req: SERVE-03
func TestBadParameters(t *testing.T) {
	common := []string{
		`model|7|must be a string`, `model|""|must not be empty`,
		`max_tokens|0|must be between 1 and 2147483647`, `max_tokens|-1|between`, `max_tokens|2147483648|between`,
		`max_tokens|"7"|must be an integer`, `max_tokens|1.5|must be an integer`, `max_tokens|1e2|must be an integer`,
		`temperature|"1"|temperature must be a number`, `temperature|-0.01|between 0 and 2`, `temperature|2.01|between 0 and 2`,
		`temperature|1e999|between 0 and 2`, `temperature|true|must be a number`,
		`top_p|0|above 0`, `top_p|1.01|at most 1`, `top_p|[]|must be a number`,
		`top_k|-2|between`, `top_k|1.5|integer`, `top_k|"a"|integer`,
		`seed|"1"|seed must be an integer`, `seed|1.5|integer`, `seed|1e3|integer`,
		`seed|9223372036854775808|must be between -9223372036854775808 and 9223372036854775807`,
		`seed|18446744073709551615|between`, `seed|-9223372036854775809|between`,
		`stop|7|must be a string or an array of strings`, `stop|""|empty string`, `stop|["a",""]|empty string`,
		`stop|["a",7]|must be a string`, `stop|[null]|must be a string`, `stop|["a","b","c","d","e"]|has 5 strings and at most 4`,
		`ignore_eos|1|must be a boolean`, `stream|"true"|must be a boolean`,
		`stream_options|true|must be an object`, `stream_options|{"include_usage":true}|needs stream`, `stream_options|{}|needs stream`,
		`n|2|must be 1`, `n|0|must be 1`, `n|"1"|integer`, `min_tokens|1|must be 0`,
		`presence_penalty|0.1|must be 0`, `presence_penalty|"0"|must be a number`, `frequency_penalty|-1|must be 0`,
		`repetition_penalty|1.1|must be 1`, `min_p|0.1|must be 0`, `use_beam_search|true|must be false`,
		`logit_bias|{"5":1}|not supported`, `logit_bias|7|not supported`, `user|7|must be a string`,
		`temprature|1|unknown parameter "temprature"`, `kv_transfer_params|{}|must ask for do_remote_prefill or`, `Temperature|1|unknown`,
		`chat_template_kwargs|{}|unknown`, `unknown_null|null|unknown`,
	}
	onlyCompletion := []string{
		`logprobs|6|between 0 and 5`, `logprobs|-1|between 0 and 5`, `logprobs|true|integer`, `best_of|2|must be 1`,
		`echo|true|must be false`, `suffix|"x"|not supported`, `messages|[]|unknown`, `top_logprobs|1|unknown`,
		`max_completion_tokens|1|unknown`, `tools|[]|unknown`,
	}
	onlyChat := []string{
		`logprobs|1|must be a boolean`, `top_logprobs|21|between 0 and 20`, `top_logprobs|-1|between`,
		`top_logprobs|2|needs logprobs`, `max_completion_tokens|0|between`, `prompt|"x"|unknown`, `echo|false|unknown`,
		`response_format|{"type":"json_object"}|must be {"type":"text"}`, `response_format|"text"|must be an object`,
		`response_format|{"type":"text","x":1}|must be`, `modalities|["text","audio"]|must be ["text"]`, `modalities|"text"|array`,
		`tools|[{"type":"function"}]|not supported`, `functions|[{}]|not supported`, `tool_choice|"auto"|must be one of`,
		`tool_choice|{"type":"function"}|must be one of`, `function_call|"auto"|must be one of`, `service_tier|"flex"|must be one of`,
		`reasoning_effort|"high"|must be one of`, `verbosity|"low"|must be one of`, `store|true|must be false`,
		`audio|{"voice":"x"}|not supported`, `prediction|{"type":"content"}|not supported`, `web_search_options|{}|not supported`,
		`metadata|"x"|must be an object`, `parallel_tool_calls|"x"|must be a boolean`, `safety_identifier|1|must be a string`,
	}
	for _, isChat := range []bool{false, true} {
		for _, line := range append(common, pick(isChat, onlyChat, onlyCompletion)...) {
			f := strings.SplitN(line, "|", 3)
			checkBad(t, isChat, f[0], f[1], f[2])
		}
	}
}

func checkBad(t *testing.T, isChat bool, name, val, want string) {
	t.Helper()
	extra := fmt.Sprintf("%q:%s", name, val)
	r, err := decodeEither(isChat, extra)
	if name == "model" || (isChat && name == "messages") || (!isChat && name == "prompt") {
		// The helper's own would come twice.
		r, err = decodeReplacing(isChat, name, val)
	}
	if err == nil {
		t.Errorf("chat %v, %s: taken: %+v", isChat, extra, r)
		return
	}
	if err.Status != 400 || err.Type != TypeInvalidRequest || err.Param != name {
		t.Errorf("chat %v, %s: %+v, want a 400 about %s", isChat, extra, err, name)
	}
	if !strings.Contains(err.Message, want) || !strings.Contains(err.Message, name) {
		t.Errorf("chat %v, %s: message %q does not say %q and the name", isChat, extra, err.Message, want)
	}
}

func decodeReplacing(isChat bool, name, val string) (*Request, *Error) {
	parts := map[string]string{"model": `"m"`, "prompt": `"p"`}
	decode := DecodeCompletion
	if isChat {
		parts = map[string]string{"model": `"m"`, "messages": `[{"role":"user","content":"hi"}]`}
		decode = DecodeChat
	}
	parts[name] = val
	var list []string
	for k, v := range parts {
		list = append(list, fmt.Sprintf("%q:%s", k, v))
	}
	return decode([]byte("{" + strings.Join(list, ",") + "}"))
}

// req: SERVE-03
func TestNestedParametersAreNamed(t *testing.T) {
	for _, c := range []struct{ extra, param string }{
		{`"stream":true,"stream_options":{"include_usage":1}`, "stream_options.include_usage"},
		{`"stream":true,"stream_options":{"includeUsage":true}`, "stream_options.includeUsage"},
		{`"max_tokens":7,"max_completion_tokens":8`, "max_completion_tokens"},
	} {
		if _, err := decodeEither(true, c.extra); err == nil || err.Param != c.param {
			t.Errorf("%s: got %v, want an error about %s", c.extra, err, c.param)
		}
	}
}

// req: SERVE-03
func TestRequiredParameters(t *testing.T) {
	for _, c := range []struct {
		chat        bool
		body, param string
	}{
		{false, `{"prompt":"p"}`, "model"},
		{false, `{"prompt":"p","model":null}`, "model"},
		{false, `{"model":"m"}`, "prompt"},
		{false, `{"model":"m","prompt":null}`, "prompt"},
		{true, `{"messages":[{"role":"user","content":"hi"}]}`, "model"},
		{true, `{"model":"m"}`, "messages"},
		{true, `{"model":"m","messages":null}`, "messages"},
		{true, `{}`, "model"},
	} {
		decode := DecodeCompletion
		if c.chat {
			decode = DecodeChat
		}
		_, err := decode([]byte(c.body))
		if err == nil || err.Status != 400 || err.Param != c.param || !strings.Contains(err.Message, "required") {
			t.Errorf("%s: got %v, want %s required", c.body, err, c.param)
		}
	}
}

// Seeds are exact over the whole range, also where a float64 would round.
// case: 16
func TestSeedIsExact(t *testing.T) {
	for _, n := range []int64{0, -1, 1<<53 + 1, 9007199254740993, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1} {
		for _, isChat := range []bool{false, true} {
			r := mustDecode(t, isChat, fmt.Sprintf(`"seed":%d`, n))
			if !reflect.DeepEqual(r.Seed, seed(n)) {
				t.Errorf("seed %d became %d", n, *r.Seed)
			}
		}
	}
}

// An error does not repeat a body's worth of a client's words.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for _, extra := range []string{fmt.Sprintf("%q:1", long), fmt.Sprintf(`"stream":true,"stream_options":{%q:true}`, long)} {
		_, err := decodeEither(true, extra)
		if err == nil || len(err.Message) > 500 || len(err.Param) > 200 || !utf8.ValidString(err.Param) {
			t.Errorf("error is %v", err)
		}
	}
	if err := ModelNotFound(long); len(err.Message) > 300 {
		t.Errorf("message of %d bytes", len(err.Message))
	}
}
