package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"testing"
	"unicode/utf8"
)

func addBodies(f *testing.F) {
	for _, extra := range []string{
		"", `"seed":9223372036854775807`, `"stop":["a","b"],"stream":true,"stream_options":{"include_usage":true}`,
		`"logprobs":true,"top_logprobs":3`, `"logprobs":5`, `"temperature":0.7e0,"top_p":1,"top_k":-1`, `"logit_bias":{ }`,
		`"disaggregated_params":{"request_type":"context_only","disagg_request_id":"r","schedule_style":1}`,
		`"kv_transfer_params":` + handleJSON,
	} {
		f.Add([]byte(completion(extra)))
		f.Add([]byte(chat(extra)))
	}
	f.Add([]byte(`{"model":"m","prompt":[[1,2,3]]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\ud800"}]}]}`))
	f.Add([]byte(` { "a" : [ { "b" : "}" } ] } `))
}

// checkRequest holds of every request that a decoder lets through.
func checkRequest(t *testing.T, r *Request, err *Error) {
	t.Helper()
	if (r == nil) == (err == nil) {
		t.Fatalf("got %v and %v", r, err)
	}
	if err != nil {
		if err.Status != 400 || err.Message == "" || !utf8.ValidString(err.Message) || !json.Valid(err.Body()) {
			t.Fatalf("error is %+v", err)
		}
		return
	}
	switch {
	case r.Model == "", r.MaxTokens < 1, r.Temperature < 0 || r.Temperature > 2, !(r.TopP > 0 && r.TopP <= 1), r.TopK < 0,
		len(r.Stop) > MaxStops, r.TopLogprobs > 0 && !r.Logprobs, r.IncludeUsage && !r.Stream,
		r.Chat != (r.Messages != nil), r.Chat == (r.Prompt != "" || len(r.PromptTokens) > 0):
		t.Fatalf("let through: %+v", r)
	}
	if r.KV != nil {
		checkKVTransfer(t, r.KV)
	}
	if r.Disagg != nil && (r.KV != nil || r.Disagg.check() != nil) {
		t.Fatalf("let through: %+v", r.Disagg)
	}
}

// req: SERVE-03
func FuzzDecodeCompletion(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeCompletion(body)
		checkRequest(t, r, err)
		agreesWithJSON(t, body, r)
	})
}

// req: SERVE-03
func FuzzDecodeChat(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeChat(body)
		checkRequest(t, r, err)
		agreesWithJSON(t, body, r)
	})
}

// agreesWithJSON compares with what encoding/json reads from the same body.
func agreesWithJSON(t *testing.T, body []byte, r *Request) {
	t.Helper()
	if r == nil {
		return
	}
	// A map, since a struct's fields would match whatever their case.
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatalf("let through what encoding/json refuses: %v", err)
	}
	var model string
	if json.Unmarshal(all["model"], &model) != nil || model != r.Model {
		t.Fatalf("model %q, encoding/json says %q", r.Model, model)
	}
	var seed *int64
	if all["seed"] != nil && (json.Unmarshal(all["seed"], &seed) != nil || !reflect.DeepEqual(seed, r.Seed)) {
		t.Fatalf("seed differs from encoding/json's in %s", body)
	}
}

// The engines' body is the client's but for one field.
// case: 16
func FuzzWithDisagg(f *testing.F) {
	addBodies(f)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := WithDisagg(body, forDecode)
		if err != nil {
			return
		}
		before, bad := object(body)
		if bad != nil {
			t.Fatalf("let through: %v", bad)
		}
		after, bad := object(out)
		if bad != nil {
			t.Fatalf("%s: %v", out, bad)
		}
		if after[0].key != disaggParam || !reflect.DeepEqual(append([]member{}, before...), after[1:]) {
			t.Fatalf("%s\nbecame\n%s", body, out)
		}
		r, bad := DecodeCompletion(body)
		if bad != nil {
			return
		}
		got, bad := DecodeCompletion(out)
		if bad != nil {
			t.Fatal(bad)
		}
		r.Disagg = &forDecode
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("got %+v, want %+v", got, r)
		}
	})
}

func FuzzDecodeError(f *testing.F) {
	for _, b := range []string{
		``, `x`, `{"error":{"message":"m","type":"t","param":null,"code":1}}`, `{"error":"x"}`, `{"detail":[]}`, `{"message":{}}`, "\xff<",
	} {
		f.Add(500, []byte(b))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := DecodeError(status, body)
		if e.Status < 400 || e.Status > 599 || e.Message == "" || e.Type == "" {
			t.Fatalf("got %+v", e)
		}
		if len(e.Message) > maxPeerMessage || len(e.Type+e.Param+e.Code) > 3*maxName || !utf8.ValidString(e.Message+e.Type+e.Param+e.Code) {
			t.Fatalf("got %+v", e)
		}
		if back := DecodeError(e.Status, e.Body()); *back != *e {
			t.Fatalf("%+v is read back as %+v", e, back)
		}
		StreamError(body)
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("data: a\n\ndata: [DONE]\n\n"), 10)
	f.Add([]byte(": c\r\nevent: e\r\ndata: a\r\ndata: b\r\n\r\n"), 100)
	f.Add([]byte("data"), 0)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = max(0, min(limit, 1<<16))
		r := NewReader(bytes.NewReader(in), limit)
		var again bytes.Buffer
		var read [][]byte
		for {
			ev, err := r.Next()
			if err != nil {
				break
			}
			if len(ev.Data) > limit {
				t.Fatalf("event of %d bytes, limit %d", len(ev.Data), limit)
			}
			if bytes.IndexByte(ev.Data, '\r') >= 0 {
				// A CR alone ends a line when written, and does not when read.
				continue
			}
			read = append(read, ev.Data)
			if err := WriteEvent(&again, ev.Data); err != nil {
				t.Fatal(err)
			}
		}
		second := NewReader(&again, limit)
		for _, want := range read {
			ev, err := second.Next()
			if err != nil || !bytes.Equal(ev.Data, want) {
				t.Fatalf("%q is read back as %q, %v", want, ev.Data, err)
			}
		}
		if _, err := second.Next(); err != io.EOF {
			t.Fatalf("the end is %v", err)
		}
	})
}
