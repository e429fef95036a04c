package openai

import (
	"strings"
	"testing"
)

// req: SERVE-03
func TestMalformedBodies(t *testing.T) {
	deep := strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20)
	for _, c := range []struct{ name, body, want string }{
		{"empty", "", "empty"},
		{"white space", " \n\t", "empty"},
		{"cut short", `{"model":"m"`, "unexpected end"},
		{"trailing garbage", `{"model":"m"} x`, "after top-level value"},
		{"two objects", `{"model":"m"}{"model":"m"}`, "after top-level value"},
		{"an array", `[1]`, "must be a JSON object"},
		{"a null", `null`, "must be a JSON object"},
		{"a string", `"x"`, "must be a JSON object"},
		{"single quotes", `{'model':'m'}`, "invalid character"},
		{"NaN", `{"temperature":NaN}`, "invalid character"},
		{"not UTF-8", "{\"model\":\"\xff\"}", "not UTF-8"},
		{"a key twice", `{"model":"m","prompt":"a","model":"n"}`, `"model" twice`},
		{"a key twice by escape", `{"model":"m","mode\u006c":"n"}`, `"model" twice`},
		{"a nested key twice", `{"stream_options":{"include_usage":true,"include_usage":false}}`, `"include_usage" twice`},
		{"deep", `{"prompt":` + deep + `}`, "depth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, decode := range []func([]byte) (*Request, *Error){DecodeCompletion, DecodeChat} {
				_, err := decode([]byte(c.body))
				if err == nil {
					t.Fatal("no error")
				}
				if err.Status != 400 || err.Type != TypeInvalidRequest || err.Param != "" {
					t.Errorf("got %+v, want a 400 without a parameter", err)
				}
				if !strings.Contains(err.Message, c.want) {
					t.Errorf("message %q does not say %q", err.Message, c.want)
				}
			}
		})
	}
}

// Nesting below encoding/json's limit is walked without recursion.
func TestDeepValueIsWalked(t *testing.T) {
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	_, err := DecodeCompletion([]byte(`{"model":"m","prompt":` + deep + `}`))
	if err == nil || err.Param != "prompt" {
		t.Fatalf("got %v, want an error about prompt", err)
	}
}

func TestMembersAndElementsKeepBytes(t *testing.T) {
	all, err := object([]byte(" { \"a\" : [1 , \"]\\\"\" , {\"x\":[]} ] ,\n\"b\":-1.50E+2,\"c\":{\"}\":\"{\"},\"d\":null } "))
	if err != nil {
		t.Fatal(err)
	}
	want := []member{
		{"a", []byte(`[1 , "]\"" , {"x":[]} ]`)},
		{"b", []byte(`-1.50E+2`)},
		{"c", []byte(`{"}":"{"}`)},
		{"d", []byte(`null`)},
	}
	if len(all) != len(want) {
		t.Fatalf("got %d members: %v", len(all), all)
	}
	for i := range want {
		if all[i].key != want[i].key || string(all[i].raw) != string(want[i].raw) {
			t.Errorf("member %d is %q: %s", i, all[i].key, all[i].raw)
		}
	}
	var got []string
	for _, e := range elements(all[0].raw) {
		got = append(got, string(e))
	}
	if s := strings.Join(got, "|"); s != `1|"]\""|{"x":[]}` {
		t.Errorf("elements are %s", s)
	}
}
