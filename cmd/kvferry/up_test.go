package main_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvferry/node/e2etest"
	"kvferry/openai"
)

// TestUp: one command starts a router, a prefill and a decode engine as processes of their
// own, and answers as one process does.
//
// req: SERVE-01, SERVE-02
func TestUp(t *testing.T) {
	c := up(t)
	children := c.children(t)
	for _, role := range []string{"router", "prefill", "decode"} {
		if len(children[role]) != 1 {
			t.Errorf("the children are %v", children)
		}
	}
	chat := e2etest.Request{Messages: []e2etest.Message{{Role: "user", Content: prose}}}.With(greedy).With(map[string]any{"max_tokens": 12})
	for _, r := range []e2etest.Request{short(1), short(1).Streamed(), chat, chat.Streamed(), longPrompt(1)} {
		c.same(t, r)
	}
	// The transfer's figures are with the answer.
	a, err := c.Complete(t.Context(), longPrompt(2).Streamed())
	if err != nil {
		t.Fatal(err)
	}
	hidden, ok := a.Took("transfer_hidden")
	if _, also := a.Took("transfer_exposed"); !ok || !also || hidden <= 0 {
		t.Errorf("Server-Timing is %q: nothing was hidden", a.Timing)
	}
	c.awaitIdle(t)
	t.Run("pages", func(t *testing.T) { pages(t, c) })
	t.Run("state", func(t *testing.T) { states(t, c) })
	t.Run("ask", func(t *testing.T) { asks(t, c) })

	pids := c.all(t)
	c.signal(syscall.SIGTERM)
	if status := c.end(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
	awaitGone(t, time.Second, pids...)
}

// pages looks at what is served beside answers.
func pages(t *testing.T, c *cluster) {
	for path, want := range map[string]string{
		"/health": `"status":"ok"`, "/ready": `"ready":true`, "/v1/models": `"id":"kvferry-tiny"`,
		"/metrics": "kvferry_router_requests_total",
	} {
		got, err := c.Text(t.Context(), path)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s is %s, %v", path, got, err)
		}
	}
}

// states compares /debug/state with the form that others rely on.
func states(t *testing.T, c *cluster) {
	var s struct {
		Role    string `json:"role"`
		Engines []struct {
			Role  *string                    `json:"role"`
			URL   *string                    `json:"url"`
			PID   *int                       `json:"pid"`
			Ready *bool                      `json:"ready"`
			State map[string]json.RawMessage `json:"state"`
		} `json:"engines"`
	}
	if err := c.Get(t.Context(), "/debug/state", &s); err != nil {
		t.Fatal(err)
	}
	if s.Role != "router" || len(s.Engines) != 2 {
		t.Fatalf("the state is %+v", s)
	}
	for _, e := range s.Engines {
		if e.Role == nil || e.URL == nil || e.PID == nil || e.Ready == nil {
			t.Errorf("an engine lacks a field: %+v", e)
			continue
		}
		if !slices.Contains(c.children(t)[*e.Role], *e.PID) {
			t.Errorf("%s engine %d is no child of ours", *e.Role, *e.PID)
		}
		for field, want := range map[string]string{
			"requests": `{"running":0,"waiting":0}`, "sessions": `{"send":0,"receive":0,"offer":0,"pull":0}`, "leases": "0",
		} {
			if got := string(e.State[field]); got != want {
				t.Errorf("%s engine: %s is %s", *e.Role, field, got)
			}
		}
		if got := string(e.State["pool"]); !regexp.MustCompile(`^\{"total":\d+,"free":\d+\}$`).MatchString(got) {
			t.Errorf("%s engine: pool is %s", *e.Role, got)
		}
	}
}

// asks runs the `ask` command.
func asks(t *testing.T, c *cluster) {
	want := aggregated.Answer(t, e2etest.Config(), e2etest.Request{Prompt: prose, Params: map[string]any{"temperature": 0, "max_tokens": 20}})
	out, errs, status := execute(t, "ask", "--url", c.URL, "--max-tokens", "20", prose)
	text, rest, _ := strings.Cut(out, "\n\ntime to first token ")
	if status != 0 || text != want.Text {
		t.Errorf("ask: status %d, %q, %q; want %q", status, out, errs, want.Text)
	}
	figures := regexp.MustCompile(`^[\d.]+ ms, [\d.]+ tokens/s, KV transfer [\d.]+ ms hidden and [\d.]+ ms exposed\n$`)
	if !figures.MatchString(rest) {
		t.Errorf("ask ends with %q", rest)
	}
	seeded := []string{"ask", "--url", c.URL, "--max-tokens", "20", "--temperature", "1.2", "--seed", "7", prose}
	first, _, _ := execute(t, seeded...)
	again, _, _ := execute(t, seeded...)
	first, _, _ = strings.Cut(first, "\n\ntime to")
	again, _, _ = strings.Cut(again, "\n\ntime to")
	if first != again || first == text {
		t.Errorf("one seed gives %q and %q", first, again)
	}
	_, errs, status = execute(t, "ask", "--url", c.URL, "--model", "other", prose)
	if status != 1 || !oneLine(errs) || !strings.Contains(errs, `"other" does not exist`) {
		t.Errorf("ask for another model: status %d, %q", status, errs)
	}
	_, errs, status = execute(t, "ask", "--url", "http://127.0.0.1:1", prose)
	if status != 1 || !oneLine(errs) || !strings.Contains(errs, "is kvferry running?") {
		t.Errorf("ask where nothing is: status %d, %q", status, errs)
	}
}

// execute runs kvferry to its end.
func execute(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	p := launch(t, args...)
	status = p.end(t)
	return p.out.String(), p.err.String(), status
}

func oneLine(s string) bool {
	return strings.HasPrefix(s, "kvferry: ") && strings.Count(s, "\n") == 1 && strings.HasSuffix(s, "\n")
}

// TestVersion: the version is one line for people and programs.
func TestVersion(t *testing.T) {
	out, errs, status := execute(t, "version")
	if status != 0 || errs != "" || !regexp.MustCompile(`^kvferry \S+, protocol \d+, go\S+ \w+/\w+\n$`).MatchString(out) {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// TestSeparateCommands: engines and a router that are started one by one find each other by
// address.
//
// req: SERVE-01, SERVE-02, PIPE-26
func TestSeparateCommands(t *testing.T) {
	any0 := "127.0.0.1:0"
	p := launch(t, "prefill", "--listen", any0, "--pipelined=false", "--chunk-tokens", "48")
	d := launch(t, "decode", "--listen", any0)
	r := launch(t, "router", "--listen", any0, "--prefill", p.ready(t), "--decode", d.ready(t))
	c := &cluster{r, e2etest.NewClient(r.ready(t), "kvferry-tiny")}
	defer c.Close()
	c.awaitIdle(t)
	c.same(t, short(3))
	c.same(t, longPrompt(3).Streamed())
	c.awaitIdle(t)

	// Without its decode engine nothing is paid for.
	d.signal(syscall.SIGTERM)
	if status := d.end(t); status != 0 {
		t.Errorf("decode: exit status %d", status)
	}
	_, err := c.Complete(t.Context(), short(4))
	var e *openai.Error
	if !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable && e.Status != http.StatusBadGateway {
		t.Errorf("without a decode engine: %v", err)
	}
	for _, one := range []*process{r, p} {
		one.signal(syscall.SIGINT)
		if status := one.end(t); status != 0 {
			t.Errorf("exit status %d", status)
		}
	}
}

// TestServe: an aggregated engine has no transfer to tell of.
//
// req: SERVE-01
func TestServe(t *testing.T) {
	p := launch(t, "serve", "--listen", "127.0.0.1:0")
	c := &cluster{p, e2etest.NewClient(p.ready(t), "kvferry-tiny")}
	defer c.Close()
	c.same(t, short(5))
	out, _, status := execute(t, "ask", "--url", c.URL, "--max-tokens", "5", prose)
	if status != 0 || !strings.HasSuffix(out, ", no KV transfer\n") {
		t.Errorf("ask: status %d, %q", status, out)
	}
}

// TestMistakes: what cannot be asked for is one clear line and exit status 1.
//
// req: PIPE-22
func TestMistakes(t *testing.T) {
	taken := launch(t, "serve", "--listen", "127.0.0.1:0")
	addr := strings.TrimPrefix(taken.ready(t), "http://")
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"nothing"}, `unknown command "nothing"`},
		{[]string{"up", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"up", "--prefill", "0"}, "prefill"},
		{[]string{"up", "--decode", "many"}, "decode"},
		{[]string{"up", "--chunk-tokens", "0"}, "chunk-tokens"},
		{[]string{"up", "--kv-dtype", "f8"}, "kv-dtype"},
		{[]string{"up", "--pipelined", "--enable-chunked-prefill=false"}, "enable-chunked-prefill"},
		{[]string{"up", "extra"}, "extra"},
		{[]string{"serve", "--block-tokens", "-1"}, "block-tokens"},
		{[]string{"serve", "--model", "no/such/file.gguf"}, "no/such/file.gguf"},
		{[]string{"serve", "--model", "up_test.go"}, "GGUF"},
		{[]string{"serve", "--log-level", "loud"}, "loud"},
		{[]string{"prefill", "--listen", "nowhere"}, "nowhere"},
		{[]string{"router", "--prefill", "127.0.0.1:1"}, "generation_servers.urls"},
		{[]string{"router", "--prefill", "::", "--decode", "http://127.0.0.1:1"}, "::"},
		{[]string{"ask"}, "arg"},
		// A port that is in use.
		{[]string{"serve", "--listen", addr}, "address already in use"},
		{[]string{"prefill", "--listen", addr}, "address already in use"},
		{[]string{"decode", "--listen", "127.0.0.1:0", "--agent-listen", addr}, "address already in use"},
		{[]string{"router", "--listen", addr, "--prefill", "127.0.0.1:1", "--decode", "127.0.0.1:2"}, "address already in use"},
	} {
		out, errs, status := execute(t, tc.args...)
		if status != 1 || out != "" || !oneLine(errs) || !strings.Contains(errs, tc.says) {
			t.Errorf("kvferry %s: status %d, %q, %q; want %q", strings.Join(tc.args, " "), status, out, errs, tc.says)
		}
	}
}

// TestUpWherePortIsTaken: the cause is told, and the engines that had been started end.
func TestUpWherePortIsTaken(t *testing.T) {
	taken := launch(t, "serve", "--listen", "127.0.0.1:0")
	addr := strings.TrimPrefix(taken.ready(t), "http://")
	_, errs, status := execute(t, "up", "--listen", addr)
	if status != 1 || !strings.Contains(errs, "address already in use") {
		t.Errorf("status %d, %q", status, errs)
	}
	// Nobody has our arguments any more but the one who has the port.
	ps, err := exec.Command("ps", "-eo", "args").Output()
	if err != nil {
		t.Skip("no ps here")
	}
	for line := range strings.Lines(string(ps)) {
		if strings.HasPrefix(line, binary+" prefill") || strings.HasPrefix(line, binary+" decode") {
			t.Errorf("it left %s", line)
		}
	}
}
