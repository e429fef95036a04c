package proxy

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"kvferry/openai"
	"kvferry/openai/httpapi"
)

// What a client sends reaches both engines byte for byte, with one field added, under one ID
// that is new each time. Numbers are those that float64 would change.
// case: 16
func TestBothLegsGetTheClientsBody(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/completions":      ` {"seed": 9007199254740993, "temperature":0.10000000000000000555, "model":"kvferry-tiny","prompt":"é\u00e9","top_p":9.50e-1}`,
		"/v1/chat/completions": `{"model":"kvferry-tiny","messages":[{"role":"user","content":"x"}],"seed":-9223372036854775808}`,
	} {
		inWorld(t, 1, 1, func(t *testing.T, w *world) {
			ids := map[string]bool{}
			for range 2 {
				if a := w.do(w.request(t.Context(), "POST", path, body)); a.status != 200 {
					t.Fatalf("%s: status %d: %s", path, a.status, a.body)
				}
			}
			pCalls, _ := w.prefill[0].seen()
			dCalls, _ := w.decode[0].seen()
			if len(pCalls) != 2 || len(dCalls) != 2 {
				t.Fatalf("%d and %d calls for 2 requests", len(pCalls), len(dCalls))
			}
			for i := range 2 {
				checkLeg(t, pCalls[i], path, body, "context_only", "")
				checkLeg(t, dCalls[i], path, body, "generation_only", "p0:9")
				id := pCalls[i].disagg().RequestID
				if id != dCalls[i].disagg().RequestID || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
					t.Errorf("IDs of the legs: %q and %q, want the same 32 hex digits", id, dCalls[i].disagg().RequestID)
				}
				ids[id] = true
			}
			if len(ids) != 2 {
				t.Errorf("two requests had the IDs %v", ids)
			}
		})
	}
}

var addedField = regexp.MustCompile(`"disaggregated_params":\{[^}]*\},`)

func checkLeg(t *testing.T, c call, path, body, requestType, endpoint string) {
	t.Helper()
	if got := addedField.ReplaceAllString(c.body, ""); got != body {
		t.Errorf("%s leg got\n%s\nand without the added field it should be\n%s", requestType, c.body, body)
	}
	d := c.disagg()
	if d.RequestType != requestType || d.CtxInfoEndpoint != endpoint || d.ScheduleStyle != 1 {
		t.Errorf("%s leg got the part %+v", requestType, d)
	}
	if c.path != path {
		t.Errorf("%s leg was posted to %s", requestType, c.path)
	}
}

// The request ID header is there once, on both legs and on the answer, and is the client's own
// if it gave a fit one. The attempt's ID stays another.
// case: 16
func TestRequestIDIsSetOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		given []string
		kept  bool
	}{
		"none":      {nil, false},
		"one":       {[]string{"client-1"}, true},
		"two":       {[]string{"client-1", "client-2"}, true},
		"empty":     {[]string{""}, false},
		"too long":  {[]string{strings.Repeat("x", 129)}, false},
		"not ASCII": {[]string{"clé"}, false},
		"spaces":    {[]string{"a b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				req := w.request(t.Context(), "POST", "/v1/completions", greeting)
				for _, id := range tc.given {
					req.Header.Add("X-Request-Id", id)
				}
				a := w.do(req)
				p, _ := w.prefill[0].seen()
				d, _ := w.decode[0].seen()
				if len(p) != 1 || len(d) != 1 {
					t.Fatalf("status %d (%v): %d and %d calls", a.status, a.err, len(p), len(d))
				}
				attempt := p[0].disagg().RequestID
				want := attempt
				if tc.kept {
					want = tc.given[0]
				}
				for where, h := range map[string]http.Header{"answer": a.header, "prefill": p[0].header, "decode": d[0].header} {
					if got := h.Values("X-Request-Id"); len(got) != 1 || got[0] != want {
						t.Errorf("%s has the IDs %q, want %q", where, got, want)
					}
				}
				if tc.kept && attempt == want {
					t.Errorf("the client chose the attempt's ID")
				}
			})
		})
	}
}

// What is wrong with a request is said before any engine is touched.
// req: SERVE-03
func TestRefusals(t *testing.T) {
	chat := `{"model":"kvferry-tiny","messages":[{"role":"user","content":"x"}]`
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		param              string
	}{
		"malformed":        {"POST", "/v1/completions", `{"model":"kvferry-tiny",`, 400, ""},
		"no object":        {"POST", "/v1/completions", `[]`, 400, ""},
		"empty":            {"POST", "/v1/completions", ``, 400, ""},
		"wrong type":       {"POST", "/v1/completions", `{"model":"kvferry-tiny","prompt":"x","max_tokens":"5"}`, 400, "max_tokens"},
		"out of range":     {"POST", "/v1/completions", `{"model":"kvferry-tiny","prompt":"x","temperature":-1}`, 400, "temperature"},
		"unsupported":      {"POST", "/v1/completions", `{"model":"kvferry-tiny","prompt":"x","n":2}`, 400, "n"},
		"unknown model":    {"POST", "/v1/completions", `{"model":"gpt-9","prompt":"x"}`, 404, "model"},
		"hand-over":        {"POST", "/v1/completions", `{"model":"kvferry-tiny","prompt":"x","disaggregated_params":{"request_type":"generation_only","disagg_request_id":"a","schedule_style":1,"ctx_info_endpoint":"h:1"}}`, 400, "disaggregated_params"},
		"null hand-over":   {"POST", "/v1/completions", `{"model":"kvferry-tiny","prompt":"x","disaggregated_params":null}`, 400, "disaggregated_params"},
		"vLLM's hand-over": {"POST", "/v1/completions", `{"model":"kvferry-tiny","prompt":"x","kv_transfer_params":{"do_remote_decode":true}}`, 400, "kv_transfer_params"},
		"chat hand-over":   {"POST", "/v1/chat/completions", chat + `,"kv_transfer_params":{}}`, 400, "kv_transfer_params"},
		"chat malformed":   {"POST", "/v1/chat/completions", chat, 400, ""},
		"chat's prompt":    {"POST", "/v1/chat/completions", chat + `,"prompt":"x"}`, 400, "prompt"},
		"too large":        {"POST", "/v1/completions", `{"prompt":"` + strings.Repeat("x", httpapi.MaxBody) + `"}`, 413, ""},
		"unknown path":     {"POST", "/v1/embeddings", greeting, 404, ""},
		"root":             {"GET", "/", ``, 404, ""},
		"wrong method":     {"GET", "/v1/completions", ``, 405, ""},
		"wrong method too": {"POST", "/v1/models", ``, 405, ""},
		"deletes":          {"DELETE", "/v1/chat/completions", ``, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				a := w.do(w.request(t.Context(), tc.method, tc.path, tc.body))
				if a.status != tc.status {
					t.Fatalf("status %d, want %d: %s", a.status, tc.status, a.body)
				}
				if message, param := a.errorBody(t); param != tc.param || !strings.Contains(message, tc.param) {
					t.Errorf("names param %q, want %q: %s", param, tc.param, message)
				}
				if a.status == 405 && a.header.Get("Allow") == "" {
					t.Errorf("405 without Allow")
				}
				w.untouched(w.prefill[0], w.decode[0])
			})
		})
	}
}

// A body of exactly the limit is taken.
func TestLargestBody(t *testing.T) {
	r, err := New(Config{Prefill: []string{"p:1"}, Decode: []string{"d:1"}})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"kvferry-tiny","prompt":"`
	body += strings.Repeat("x", httpapi.MaxBody-len(body)-2) + `"}`
	req := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(body))
	got, asked, bad := r.admit(httptest.NewRecorder(), req, endpoint{"/v1/completions", openai.DecodeCompletion})
	if bad != nil || string(got) != body || asked.Model != "kvferry-tiny" {
		t.Errorf("%d bytes: %d taken, %+v: %v", len(body), len(got), asked, bad)
	}
}

// Without a decode engine no prefill engine is paid for; without a prefill engine no decode
// engine is troubled. A decode engine that is found dead by the request itself costs the
// prefill engine no more than the beginning of its work.
// case: 16
func TestNothingIsPaidForInVain(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.kill(w.decode[0])
		w.pass(time.Second) // a poll finds it out
		a := w.post(greeting)
		if message, _ := a.errorBody(t); a.status != 503 || !strings.Contains(message, "decode") {
			t.Errorf("status %d: %s", a.status, message)
		}
		w.untouched(w.prefill[0])
		w.ended(outcomeRefused, 503)
	})
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.kill(w.prefill[0])
		w.pass(time.Second)
		a := w.post(greeting)
		if message, _ := a.errorBody(t); a.status != 503 || !strings.Contains(message, "prefill") {
			t.Errorf("status %d: %s", a.status, message)
		}
		w.untouched(w.decode[0])
	})
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].serve = prefillOK(time.Minute)
		w.kill(w.decode[0]) // and no poll before the request
		a := w.post(greeting)
		if a.status != 502 || a.took != 0 {
			t.Errorf("status %d after %v: %s", a.status, a.took, a.body)
		}
		w.settle()
		if calls, cancelled := w.prefill[0].seen(); len(calls) != cancelled {
			t.Errorf("prefill was asked %d times and given up %d times", len(calls), cancelled)
		}
		if got := w.ready(); got != "p0" {
			t.Errorf("ready after the failure: %s", got)
		}
	})
}

// Ready engines of each role take turns.
func TestRoundRobin(t *testing.T) {
	inWorld(t, 2, 3, func(t *testing.T, w *world) {
		for range 6 {
			w.post(greeting)
		}
		for _, f := range append(w.prefill, w.decode...) {
			want := 6 / len(w.decode)
			if f.role == "prefill" {
				want = 6 / len(w.prefill)
			}
			if calls, _ := f.seen(); len(calls) != want {
				t.Errorf("%s was asked %d times, want %d", f.addr, len(calls), want)
			}
		}
	})
}
