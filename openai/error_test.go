package openai

import (
	"strings"
	"testing"
)

// req: SERVE-03
func TestErrorBodies(t *testing.T) {
	for _, c := range []struct {
		err    *Error
		status int
		body   string
	}{
		{
			BadRequest("stop", "stop %s", "<&>"), 400,
			`{"error":{"message":"stop <&>","type":"invalid_request_error","param":"stop","code":null}}`,
		},
		{
			BadRequest("", "100%% wrong"), 400,
			`{"error":{"message":"100% wrong","type":"invalid_request_error","param":null,"code":null}}`,
		},
		{
			ModelNotFound(`a"b`), 404,
			`{"error":{"message":"the model \"a\\\"b\" does not exist","type":"not_found_error","param":"model","code":"model_not_found"}}`,
		},
		{
			TooLong("messages", 1024, 2000), 400,
			`{"error":{"message":"messages is 2000 tokens long and the limit is 1024 tokens","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		},
		{
			BodyTooLarge(10), 413,
			`{"error":{"message":"the body is larger than 10 bytes","type":"invalid_request_error","param":null,"code":"body_too_large"}}`,
		},
		{
			Overloaded(429, "queue is full"), 429,
			`{"error":{"message":"queue is full","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`,
		},
		{
			Overloaded(503, "no decode engine is ready"), 503,
			`{"error":{"message":"no decode engine is ready","type":"server_error","param":null,"code":"overloaded"}}`,
		},
		{
			Overloaded(200, "x"), 503,
			`{"error":{"message":"x","type":"server_error","param":null,"code":"overloaded"}}`,
		},
		{
			Upstream(502, "prefill: %s", "lost"), 502,
			`{"error":{"message":"prefill: lost","type":"upstream_error","param":null,"code":"upstream_failed"}}`,
		},
		{
			Upstream(504, "late"), 504,
			`{"error":{"message":"late","type":"upstream_error","param":null,"code":"upstream_timeout"}}`,
		},
		{
			Internal("oops"), 500,
			`{"error":{"message":"oops","type":"server_error","param":null,"code":null}}`,
		},
	} {
		if got := string(c.err.Body()); got != c.body || c.err.Status != c.status {
			t.Errorf("got  %d %s\nwant %d %s", c.err.Status, got, c.status, c.body)
		}
		// A peer's reader gets back what was sent, so errors pass through a router unchanged.
		if back := DecodeError(c.status, c.err.Body()); *back != *c.err {
			t.Errorf("got back %+v, sent %+v", back, c.err)
		}
	}
}

func TestErrorText(t *testing.T) {
	if got := BadRequest("n", "n is bad").Error(); got != "400 invalid_request_error: n is bad (param n)" {
		t.Error(got)
	}
	if got := Internal("oops").Error(); got != "500 server_error: oops" {
		t.Error(got)
	}
}

// The reason survives whatever form a peer gives it in.
// case: 11
func TestDecodeErrorForms(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   Error
	}{
		{400, `{"error":{"message":"m","type":"t","param":"p","code":7}}`, Error{400, "m", "t", "p", "7"}},
		{404, `{"error":{"message":"m"}}`, Error{404, "m", TypeNotFound, "", ""}},
		{500, `{"error":"plain words"}`, Error{500, "plain words", TypeServer, "", ""}},
		{400, `{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`, Error{400, "m", "BadRequestError", "", "400"}},
		{422, `{"detail":"Not this"}`, Error{422, "Not this", TypeInvalidRequest, "", ""}},
		{422, `{"detail":[{"loc":["body"],"msg":"x"}]}`, Error{422, `[{"loc":["body"],"msg":"x"}]`, TypeInvalidRequest, "", ""}},
		{429, `slow down` + "\n", Error{429, "slow down", TypeRateLimit, "", ""}},
		{502, ``, Error{502, "the peer answered with status 502 and no reason", TypeUpstream, "", ""}},
		{503, `<html><body>Unavailable</body></html>`, Error{503, "the peer answered with status 503 and no reason", TypeServer, "", ""}},
		{504, `{"error":null}`, Error{504, "the peer answered with status 504 and no reason", TypeUpstream, "", ""}},
		{500, `{"error":{"message":null,"type":null}}`, Error{500, "the peer answered with status 500 and no reason", TypeServer, "", ""}},
		{500, `[1]`, Error{500, "[1]", TypeServer, "", ""}},
		{500, "bad \xff bytes", Error{500, "bad \ufffd bytes", TypeServer, "", ""}},
		{200, `x`, Error{502, "x", TypeUpstream, "", ""}},
		{0, ``, Error{502, "the peer answered with status 0 and no reason", TypeUpstream, "", ""}},
	} {
		if got := DecodeError(c.status, []byte(c.body)); *got != c.want {
			t.Errorf("%d %s:\ngot  %+v\nwant %+v", c.status, c.body, *got, c.want)
		}
	}
	long := DecodeError(500, []byte(`{"error":{"message":"`+strings.Repeat("x", 1<<20)+`"}}`))
	if len(long.Message) > 2100 {
		t.Errorf("message of %d bytes is kept", len(long.Message))
	}
}

// An error in mid-stream is found, and text that talks of errors is not one.
// case: 11
func TestStreamError(t *testing.T) {
	for _, sent := range []*Error{Upstream(502, "decode died"), Internal("x"), BadRequest("n", "n"), Overloaded(429, "q"), ModelNotFound("m")} {
		got, ok := StreamError(sent.Body())
		if !ok || *got != *sent {
			t.Errorf("got %+v, %v, want %+v", got, ok, sent)
		}
	}
	e := NewEncoder(&Request{}, "id", 1, "m")
	for _, payload := range []string{
		string(e.Delta(Piece{Text: `{"error":{"message":"x"}}`})), `[DONE]`, `{"error":null}`, `{"x":"error"}`, `{"error"`,
	} {
		if got, ok := StreamError([]byte(payload)); ok {
			t.Errorf("%s is taken for %+v", payload, got)
		}
	}
}
