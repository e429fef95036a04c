package openai

import (
	"reflect"
	"strings"
	"testing"
)

var (
	forPrefill = Disagg{RequestType: ContextOnly, RequestID: "r-1", ScheduleStyle: GenerationFirst}
	forDecode  = Disagg{RequestType: GenerationOnly, RequestID: "r-1", ScheduleStyle: GenerationFirst, CtxInfoEndpoint: "127.0.0.1:7000"}
)

// Numbers, spelling, order and white space of a client's body reach the engines unchanged.
// case: 16
func TestWithDisaggKeepsTheBody(t *testing.T) {
	const field = `"disaggregated_params":{"request_type":"generation_only","disagg_request_id":"r-1","schedule_style":1,"ctx_info_endpoint":"127.0.0.1:7000"}`
	for _, c := range []struct{ body, want string }{
		{
			` { "seed" : 9223372036854775807, "model":"m\u006d", "prompt":"{<é>", "temperature":7.00E-1 } `,
			` {` + field + `, "seed" : 9223372036854775807, "model":"m\u006d", "prompt":"{<é>", "temperature":7.00E-1 } `,
		},
		{`{}`, `{` + field + `}`},
		{`{ }`, `{` + field + ` }`},
	} {
		got, err := WithDisagg([]byte(c.body), forDecode)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// req: PIPE-21
func TestDisaggArrives(t *testing.T) {
	for _, d := range []Disagg{forPrefill, forDecode} {
		for _, isChat := range []bool{false, true} {
			body, dec := completion(`"seed":-9223372036854775808`), DecodeCompletion
			if isChat {
				body, dec = chat(`"seed":-9223372036854775808`), DecodeChat
			}
			out, err := WithDisagg([]byte(body), d)
			if err != nil {
				t.Fatal(err)
			}
			r, bad := dec(out)
			if bad != nil {
				t.Fatal(bad)
			}
			plain, _ := dec([]byte(body))
			if plain.Disagg != nil {
				t.Error("a client's body has Disagg")
			}
			plain.Disagg = &d
			if !reflect.DeepEqual(r, plain) {
				t.Errorf("got %+v, want %+v", r, plain)
			}
		}
	}
}

// req: PIPE-21
func TestBadDisagg(t *testing.T) {
	const id, style, ctx = `"disagg_request_id":"r"`, `"schedule_style":1`, `"request_type":"context_only"`
	long := strings.Repeat("x", 513)
	for _, c := range []struct{ val, param string }{
		{`7`, ""},
		{`{` + id + `,` + style + `}`, ".request_type"},
		{`{"request_type":"both",` + id + `,` + style + `}`, ".request_type"},
		{`{"request_type":1,` + id + `,` + style + `}`, ".request_type"},
		{`{` + ctx + `,` + style + `}`, ".disagg_request_id"},
		{`{` + ctx + `,"disagg_request_id":7,` + style + `}`, ".disagg_request_id"},
		{`{` + ctx + `,"disagg_request_id":"a b",` + style + `}`, ".disagg_request_id"},
		{`{` + ctx + `,"disagg_request_id":"é",` + style + `}`, ".disagg_request_id"},
		{`{` + ctx + `,"disagg_request_id":"` + long[:129] + `",` + style + `}`, ".disagg_request_id"},
		{`{` + ctx + `,` + id + `}`, ".schedule_style"},
		{`{` + ctx + `,` + id + `,"schedule_style":0}`, ".schedule_style"},
		{`{` + ctx + `,` + id + `,"schedule_style":"1"}`, ".schedule_style"},
		{`{"request_type":"generation_only",` + id + `,` + style + `}`, ".ctx_info_endpoint"},
		{`{"request_type":"generation_only",` + id + `,` + style + `,"ctx_info_endpoint":"a\nb"}`, ".ctx_info_endpoint"},
		{`{"request_type":"generation_only",` + id + `,` + style + `,"ctx_info_endpoint":"` + long + `"}`, ".ctx_info_endpoint"},
		{`{` + ctx + `,` + id + `,` + style + `,"first_gen_tokens":[1]}`, ".first_gen_tokens"},
	} {
		_, err := decodeEither(false, `"disaggregated_params":`+c.val)
		if err == nil || err.Status != 400 || err.Param != "disaggregated_params"+c.param {
			t.Errorf("%s: got %v, want an error about %s", c.val, err, c.param)
		}
	}
}

// A client cannot hand in what only a router may say.
// req: SERVE-03
func TestWithDisaggRefuses(t *testing.T) {
	for _, c := range []struct {
		body string
		d    Disagg
		want string
	}{
		{`{"model":"m","disaggregated_params":{}}`, forPrefill, "set by the router"},
		{`{"model":"m","disaggregated\u005fparams":null}`, forPrefill, "set by the router"},
		{`[]`, forPrefill, "must be a JSON object"},
		{`{"a":1,"a":2}`, forPrefill, "twice"},
		{`{`, forPrefill, "not valid JSON"},
		{`{}`, Disagg{}, "request_type"},
		{`{}`, Disagg{RequestType: GenerationOnly, RequestID: "r", ScheduleStyle: 1}, "ctx_info_endpoint"},
	} {
		out, err := WithDisagg([]byte(c.body), c.d)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v, want %q", c.body, out, err, c.want)
		}
	}
}
