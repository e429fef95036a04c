package node_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// refusals are requests that are wrong, and what each is told: status, type, parameter, code
// and words of the message.
var refusals = []struct {
	what, path, body         string
	status                   int
	kind, param, code, words string
}{
	{"no JSON", completions, `{"model":`, 400, "invalid_request_error", "", "", "JSON"},
	{"no object", completions, `[]`, 400, "invalid_request_error", "", "", "object"},
	{"unknown model", completions, `{"model":"gpt-9","prompt":"a"}`, 404, "not_found_error", "model", "model_not_found", "gpt-9"},
	{"unknown model of a chat", chats, `{"model":"gpt-9","messages":[{"role":"user","content":"a"}]}`, 404, "not_found_error", "model", "model_not_found", "gpt-9"},
	{"no prompt", completions, `{"model":"windowed"}`, 400, "invalid_request_error", "prompt", "", "required"},
	{"empty prompt", completions, `{"model":"windowed","prompt":""}`, 400, "invalid_request_error", "prompt", "", ""},
	{"no messages", chats, `{"model":"windowed"}`, 400, "invalid_request_error", "messages", "", "required"},
	{"prompt of a wrong type", completions, `{"model":"windowed","prompt":{"a":1}}`, 400, "invalid_request_error", "prompt", "", ""},
	{"token out of the vocabulary", completions, `{"model":"windowed","prompt":[1,259]}`, 400, "invalid_request_error", "prompt", "", "259"},
	{"negative token", completions, `{"model":"windowed","prompt":[-1]}`, 400, "invalid_request_error", "prompt", "", "index 0"},
	{"unknown parameter", completions, `{"model":"windowed","prompt":"a","prompts":1}`, 400, "invalid_request_error", "prompts", "", "unknown"},
	{"unsupported parameter", completions, `{"model":"windowed","prompt":"a","n":2}`, 400, "invalid_request_error", "n", "", "n must be 1"},
	{"out of range", completions, `{"model":"windowed","prompt":"a","temperature":2.5}`, 400, "invalid_request_error", "temperature", "", "between"},
	{"wrong type", completions, `{"model":"windowed","prompt":"a","max_tokens":"many"}`, 400, "invalid_request_error", "max_tokens", "", ""},
	{"no tokens wanted", chats, `{"model":"windowed","messages":[{"role":"user","content":"a"}],"max_tokens":0}`, 400, "invalid_request_error", "max_tokens", "", ""},
	{"too many logprobs", completions, `{"model":"windowed","prompt":"a","logprobs":6}`, 400, "invalid_request_error", "logprobs", "", ""},
	{"too long", completions, `{"model":"windowed","prompt":"` + strings.Repeat("a", 2100) + `"}`, 400, "invalid_request_error", "prompt", "context_length_exceeded", "2101 tokens"},
	{"too long, streamed", completions, `{"model":"windowed","stream":true,"prompt":"` + strings.Repeat("a", 2100) + `"}`, 400, "invalid_request_error", "prompt", "context_length_exceeded", "2101 tokens"},
	{"too long a chat", chats, `{"model":"windowed","messages":[{"role":"user","content":"` + strings.Repeat("a", 2100) + `"}]}`, 400, "invalid_request_error", "messages", "context_length_exceeded", "2103 tokens"},
	{"no such path", "/v1/embeddings", `{}`, 404, "not_found_error", "", "", ""},
}

const (
	completions = "/v1/completions"
	chats       = "/v1/chat/completions"
)

// TestBadRequests: what is wrong with a request is said in OpenAI's form, by the router and by
// an aggregated engine alike, and leaves nothing behind.
//
// req: SERVE-03
func TestBadRequests(t *testing.T) {
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{Engine: cfg})
	alone := cfg
	alone.Pipelined = false
	one := e2etest.StartEngine(t, alone)
	for _, r := range refusals {
		for _, at := range []*e2etest.Client{c.Client, one.Client} {
			t.Run(r.what, func(t *testing.T) {
				status, e := refusal(t, at, r.path, r.body)
				if status != r.status || e.Type != r.kind || text(e.Param) != r.param || text(e.Code) != r.code {
					t.Errorf("status %d, type %q, param %q, code %q, want %d, %q, %q, %q",
						status, e.Type, text(e.Param), text(e.Code), r.status, r.kind, r.param, r.code)
				}
				if !strings.Contains(e.Message, r.words) {
					t.Errorf("message %q does not say %q", e.Message, r.words)
				}
			})
		}
		c.AwaitIdle(t)
		one.AwaitIdle(t)
	}
	given := prefillLeg(e2etest.Request{Prompt: "a"}, "mine")
	_, err := c.Complete(t.Context(), given)
	fails(t, "a hand-over from a client", err, http.StatusBadRequest, "disaggregated_params")
	if err := same(t, c, cfg, e2etest.Request{Prompt: prose}.With(greedy)); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// errorFields are an error body's.
type errorFields struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// refusal posts a body and gives the error that comes back.
func refusal(t *testing.T, c *e2etest.Client, path, body string) (int, errorFields) {
	t.Helper()
	resp, err := c.Post(t.Context(), path, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Error *errorFields `json:"error"`
	}
	strict := json.NewDecoder(bytes.NewReader(got))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil || e.Error == nil || e.Error.Message == "" {
		t.Fatalf("not an error body: %s (%v)", got, err)
	}
	return resp.StatusCode, *e.Error
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// same asks the cluster and compares with the aggregated engine.
func same(t *testing.T, c *e2etest.Cluster, cfg node.EngineConfig, r e2etest.Request) error {
	t.Helper()
	got, err := c.Complete(t.Context(), r)
	if err != nil {
		return err
	}
	return got.Differs(aggregated.Answer(t, cfg, r))
}

// TestOverload: requests beyond the queue get 503 at once, and those before them their answers.
//
// req: SERVE-03
func TestOverload(t *testing.T) {
	cfg := smallConfig(t)
	cfg.MaxSeqs, cfg.MaxWaiting = 1, 1
	var link slow
	c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { link.on(cfg) }})
	link.connect(t, c)
	link.Stall()
	r := e2etest.Request{Prompt: tokens(60, 1)}.With(greedy)
	first := ask(c.Client, r)
	c.D[0].Holds(t, "the first runs", func(n engine.Counts) bool { return n.Running == 1 })
	second := ask(c.Client, r)
	c.D[0].Holds(t, "the second waits", func(n engine.Counts) bool { return n.Waiting == 1 })
	_, err := c.Complete(t.Context(), r)
	fails(t, "the third", err, http.StatusServiceUnavailable, "too many requests are waiting")
	link.Resume()
	for what, ch := range map[string]<-chan later{"first": first, "second": second} {
		l := come(t, what, ch)
		if l.err == nil {
			l.err = l.answer.Differs(aggregated.Answer(t, cfg, r))
		}
		if l.err != nil {
			t.Errorf("the %s: %v", what, l.err)
		}
	}
}
