package openai

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// stream writes an answer of pieces and gives its events.
func stream(req *Request, reason FinishReason, pieces ...Piece) []string {
	e := NewEncoder(req, "id-1", 1700000000, "m")
	var out []string
	for _, p := range pieces {
		out = append(out, string(e.Delta(p)))
	}
	for _, b := range e.Final(reason, NewUsage(5, 2, 4)) {
		out = append(out, string(b))
	}
	return out
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// req: SERVE-01
func TestCompletionStream(t *testing.T) {
	const head = `{"id":"id-1","object":"text_completion","created":1700000000,"model":"m","choices":[`
	compare(t, stream(&Request{}, FinishLength, Piece{Text: "a<"}, Piece{Text: "b"}), []string{
		head + `{"index":0,"text":"a<","logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"text":"b","logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"text":"","logprobs":null,"finish_reason":"length"}]}`,
	})
	compare(t, stream(&Request{IncludeUsage: true}, FinishStop, Piece{Text: "a"}), []string{
		head + `{"index":0,"text":"a","logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":null}`,
		head + `],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}`,
	})
}

// req: SERVE-01
func TestChatStream(t *testing.T) {
	const head = `{"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[`
	compare(t, stream(&Request{Chat: true}, FinishLength, Piece{Text: "a"}, Piece{Text: ""}), []string{
		head + `{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}`,
	})
	// Nothing generated: the role still comes.
	compare(t, stream(&Request{Chat: true, IncludeUsage: true}, FinishStop), []string{
		head + `{"index":0,"delta":{"role":"assistant"},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
		head + `],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}`,
	})
}

// req: SERVE-01
func TestFullAnswers(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}}`
	for _, c := range []struct {
		req  *Request
		want string
	}{
		{&Request{}, `{"id":"id-1","object":"text_completion","created":17,"model":"m","choices":[` +
			`{"index":0,"text":"a\n","logprobs":null,"finish_reason":"stop"}],` + usage},
		{&Request{Chat: true}, `{"id":"id-1","object":"chat.completion","created":17,"model":"m","choices":[` +
			`{"index":0,"message":{"role":"assistant","content":"a\n","refusal":null},"logprobs":null,"finish_reason":"stop"}],` + usage},
	} {
		got := NewEncoder(c.req, "id-1", 17, "m").Full(Piece{Text: "a\n"}, FinishStop, NewUsage(5, 2, 0))
		compare(t, []string{string(got)}, []string{c.want})
	}
}

// tokens are "né€" cut within the euro sign, with alternatives.
var tokens = []TokenLogprob{
	{Bytes: []byte("n"), Logprob: -0.5, Top: []Alternative{{[]byte("n"), -0.5}, {nil, -1}, {[]byte{}, -2}}},
	{Bytes: []byte("é\xe2"), Logprob: math.Inf(-1), Top: []Alternative{{[]byte("\xe2\x82"), -1}, {[]byte("\xe2\x83"), -2}}},
	{Bytes: []byte("\x82\xac"), Logprob: math.NaN()},
}

// req: SERVE-01
func TestCompletionLogprobs(t *testing.T) {
	req := &Request{Logprobs: true, TopLogprobs: 2}
	full := decodeCompletionAnswer(t, NewEncoder(req, "", 0, "").Full(Piece{Text: "né€", Tokens: tokens}, FinishStop, Usage{}))
	want := &CompletionLogprobs{
		Tokens:        []string{"n", `bytes:\xc3\xa9\xe2`, `bytes:\x82\xac`},
		TokenLogprobs: []float64{-0.5, -9999, -9999},
		TopLogprobs: []map[string]float64{
			{"n": -0.5, "": -1},
			{`bytes:\xe2\x82`: -1, `bytes:\xe2\x83`: -2},
			{},
		},
		TextOffset: []int{0, 1, 2},
	}
	if !reflect.DeepEqual(full, want) {
		t.Errorf("got  %+v\nwant %+v", full, want)
	}
	// A stream's pieces put together are the same, offsets too.
	e := NewEncoder(req, "", 0, "")
	var joined CompletionLogprobs
	for _, tok := range tokens {
		p := decodeCompletionAnswer(t, e.Delta(Piece{Tokens: []TokenLogprob{tok}}))
		joined.Tokens = append(joined.Tokens, p.Tokens...)
		joined.TokenLogprobs = append(joined.TokenLogprobs, p.TokenLogprobs...)
		joined.TopLogprobs = append(joined.TopLogprobs, p.TopLogprobs...)
		joined.TextOffset = append(joined.TextOffset, p.TextOffset...)
	}
	if !reflect.DeepEqual(&joined, want) {
		t.Errorf("streamed %+v\nwant     %+v", joined, want)
	}
	// Without alternatives the list is null.
	got := NewEncoder(&Request{Logprobs: true}, "", 0, "").Delta(Piece{Text: "n", Tokens: tokens[:1]})
	if s := `"logprobs":{"tokens":["n"],"token_logprobs":[-0.5],"top_logprobs":null,"text_offset":[0]}`; !strings.Contains(string(got), s) {
		t.Errorf("got %s", got)
	}
}

func decodeCompletionAnswer(t *testing.T, b []byte) *CompletionLogprobs {
	t.Helper()
	var r CompletionResponse
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r.Choices[0].Logprobs
}

// req: SERVE-01
func TestChatLogprobs(t *testing.T) {
	req := &Request{Chat: true, Logprobs: true, TopLogprobs: 2}
	const want = `"logprobs":{"content":[` +
		`{"token":"n","logprob":-0.5,"bytes":[110],"top_logprobs":[{"token":"n","logprob":-0.5,"bytes":[110]},{"token":"","logprob":-1,"bytes":[]},{"token":"","logprob":-2,"bytes":[]}]},` +
		`{"token":"é` + "\ufffd" + `","logprob":-9999,"bytes":[195,169,226],"top_logprobs":[{"token":"` + "\ufffd" + `","logprob":-1,"bytes":[226,130]},{"token":"` + "\ufffd" + `","logprob":-2,"bytes":[226,131]}]},` +
		`{"token":"` + "\ufffd\ufffd" + `","logprob":-9999,"bytes":[130,172],"top_logprobs":[]}],"refusal":null}`
	p := Piece{Text: "né€", Tokens: tokens}
	for _, got := range [][]byte{NewEncoder(req, "", 0, "").Delta(p), NewEncoder(req, "", 0, "").Full(p, FinishStop, Usage{})} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// Not asked for, not told.
	if got := NewEncoder(&Request{Chat: true}, "", 0, "").Delta(p); !strings.Contains(string(got), `"logprobs":null`) {
		t.Errorf("got %s", got)
	}
}

// req: SERVE-01
func TestModelList(t *testing.T) {
	got := marshal(NewModelList(Model{ID: "m", Created: 7, OwnedBy: "kvferry", MaxModelLen: 1024}, Model{ID: "n"}))
	compare(t, []string{string(got), string(marshal(NewModelList()))}, []string{
		`{"object":"list","data":[{"id":"m","object":"model","created":7,"owned_by":"kvferry","max_model_len":1024},` +
			`{"id":"n","object":"model","created":0,"owned_by":""}]}`,
		`{"object":"list","data":[]}`,
	})
}
