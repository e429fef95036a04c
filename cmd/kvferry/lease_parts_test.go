package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
	"kvferry/openai/httpapi"
)

// part is one process of a deployment, and a client with the deployment's token.
type part struct {
	*process
	*e2etest.Client
	args []string
}

// startPart starts a process of which everything else is an argument.
func startPart(t *testing.T, args ...string) *part {
	t.Helper()
	p := launch(t, args...)
	c := e2etest.NewClient(p.ready(t), models.TinyName)
	c.Header = http.Header{httpapi.HeaderToken: {os.Getenv(node.TokenVariable)}}
	t.Cleanup(c.Close)
	return &part{process: p, Client: c, args: args}
}

// again starts a process of the same kind at the same addresses, once this one has been killed.
func (p *part) again(t *testing.T) *part {
	t.Helper()
	var r node.Readiness
	if err := p.Get(t.Context(), "/ready", &r); err != nil {
		t.Fatal(err)
	}
	p.kill(t)
	return startPart(t, append(p.args, "--listen="+strings.TrimPrefix(p.URL, "http://"), "--agent-listen="+r.Agent)...)
}

// kill kills the process and waits for its end.
func (p *part) kill(t *testing.T) {
	t.Helper()
	kill(t, p.pid())
	<-p.ended
}

// state is an engine's.
func (p *part) state(t *testing.T) node.State {
	t.Helper()
	var s node.State
	if err := p.Get(t.Context(), "/debug/state", &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// metric is the sum of all series of a name that have all of the labels.
func (p *part) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	text, err := p.Text(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		its, all, _ := strings.Cut(series, "{")
		if its != name || !hasAll(all, labels) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum, found = sum+n, true
	}
	if !found {
		t.Fatalf("%s has no metric %s with %q", p.URL, name, labels)
	}
	return sum
}

func hasAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// The metrics of leases that the tests look at.
const (
	expiredLeases = "kvferry_kv_num_kv_expired_reqs_total"
	renewals      = "kvferry_lease_renewals_total"
	promptTokens  = "kvferry_prompt_tokens_total"
	pulls         = "kvferry_kv_bytes_transferred_count"
)

// holds waits until an engine's state is as wanted.
func (p *part) holds(t *testing.T, what string, want func(node.State) bool) {
	t.Helper()
	e2etest.Await(t, waitLong, what, func() error {
		if s := p.state(t); !want(s) {
			return fmt.Errorf("it holds %+v", s)
		}
		return nil
	})
}

// leases waits until an engine lends so many prompts.
func (p *part) leases(t *testing.T, n int) {
	t.Helper()
	p.holds(t, fmt.Sprintf("%d leases", n), func(s node.State) bool { return s.Leases == n })
}

// alone waits until the engine knows that no other one is there. Before, it can read by shared memory what a
// process that was killed has left, and prove that it is the request's own.
func (p *part) alone(t *testing.T) {
	t.Helper()
	e2etest.Await(t, e2etest.Soon, "no engine is connected", func() error {
		if n := p.metric(t, "kvferry_peers"); n != 0 {
			return fmt.Errorf("%v engines are connected", n)
		}
		return nil
	})
}

// renewed waits until so many heartbeats have come.
func (p *part) renewed(t *testing.T, n float64) {
	t.Helper()
	e2etest.Await(t, waitLong, "leases are renewed", func() error {
		if now := p.metric(t, renewals); now < n {
			return fmt.Errorf("%v times, want %v", now, n)
		}
		return nil
	})
}

// baseline waits until engines hold nothing.
func baseline(t *testing.T, engines ...*part) {
	t.Helper()
	for _, e := range engines {
		e2etest.Await(t, baselineSoon, "engine "+e.URL+" is at its baseline", func() error { return idle(e.state(t)) })
	}
}

// baselineSoon is how long that may take on a busy machine.
const baselineSoon = 5 * e2etest.Soon

// deployment says how to start the processes of one. Nothing is remembered between requests,
// so that each does all of its work, and no turns are kept.
type deployment struct {
	prefill, decode []string // arguments beside the common ones
	decodes         int      // 1 if zero
	router          []string // nil: no router
}

// parts are its processes. A process that dies stays dead.
type parts struct {
	p      *part
	d      []*part
	router *part
}

var bare = []string{"--listen=127.0.0.1:0", "--enable-block-reuse=false", "--decoder-kv-blocks-ttl=0s"}

// contextFirst is a router's style.
var contextFirst = []string{"--schedule-style=context_first"}

func (o deployment) start(t *testing.T) *parts {
	t.Helper()
	c := &parts{p: startPart(t, append(append([]string{"prefill"}, bare...), o.prefill...)...)}
	for range max(1, o.decodes) {
		c.d = append(c.d, startPart(t, append(append([]string{"decode"}, bare...), o.decode...)...))
	}
	if o.router == nil {
		return c
	}
	args := append([]string{"router", "--listen=127.0.0.1:0", "--prefill=" + c.p.URL}, o.router...)
	for _, d := range c.d {
		args = append(args, "--decode="+d.URL)
	}
	c.router = startPart(t, args...)
	c.routes(t)
	return c
}

// routes waits until the router can choose every engine.
func (c *parts) routes(t *testing.T) {
	t.Helper()
	e2etest.Await(t, waitLong, "the router finds all engines", func() error {
		var s e2etest.RouterState
		if err := c.router.Get(t.Context(), "/debug/state", &s); err != nil {
			return err
		}
		for _, e := range s.Engines {
			if !e.Ready {
				return fmt.Errorf("%s is not ready", e.URL)
			}
		}
		return nil
	})
}

// send has the router answer a request, and gives what comes of it.
func (c *parts) send(t *testing.T, r e2etest.Request) <-chan stream {
	return (&cluster{c.router.process, c.router.Client}).send(t, r)
}

// occupants are how many requests occupy an engine: one that runs, and others that would run next
// if it ended.
const occupants = 4

// occupy has an engine that has --max-seqs=1 run one request, and have more of them before
// whatever comes, until they are told to leave.
func occupy(t *testing.T, d *part) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range occupants {
		all.Go(func() { _, _ = d.Complete(ctx, short(9000+n).With(map[string]any{"max_tokens": 7000})) })
	}
	d.holds(t, "the engine is occupied", func(s node.State) bool {
		return s.Requests.Running == 1 && s.Requests.Waiting == occupants-1
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// queue waits until so many requests wait behind those that occupy an engine.
func (p *part) queue(t *testing.T, n int) {
	t.Helper()
	p.holds(t, fmt.Sprintf("%d requests wait", n), func(s node.State) bool {
		return s.Requests.Running+s.Requests.Waiting >= occupants+n
	})
}

// askPrefill is what a proxy of vLLM's asks the first engine for.
const askPrefill = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,` +
	`"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// handle has the prefill engine compute a request's prompt, and gives the handle.
func (p *part) handle(t *testing.T, r e2etest.Request) json.RawMessage {
	t.Helper()
	path, body := "/v1/completions", map[string]any{"model": p.Model, "prompt": r.Prompt}
	if r.Messages != nil {
		path, body = "/v1/chat/completions", map[string]any{"model": p.Model, "messages": r.Messages}
	}
	maps.Copy(body, r.Params)
	maps.Copy(body, map[string]any{"max_tokens": 1, "stream": false, "kv_transfer_params": json.RawMessage(askPrefill)})
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Post(t.Context(), path, text)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the prefill leg: %s %v: %s", resp.Status, err, answer)
	}
	kv, err := openai.KVTransferOf(answer)
	if err != nil || kv == nil {
		t.Fatalf("no handle (%v) in %s", err, answer)
	}
	return kv
}

// with is a request with a handle, as it goes to a decode engine.
func with(r e2etest.Request, handle json.RawMessage) e2etest.Request {
	return r.With(map[string]any{"kv_transfer_params": handle})
}

// right checks an answer against the aggregated engine's.
func right(t *testing.T, r e2etest.Request, got *e2etest.Answer, err error) {
	t.Helper()
	if err == nil {
		err = got.Differs(aggregated.Answer(t, e2etest.Config(), r))
	}
	if err != nil {
		t.Errorf("prompt %.20q: %v", r.Prompt, err)
	}
}

// failedWith checks that an answer is the error of a load that failed, for that reason.
func failedWith(t *testing.T, err error, reasons ...string) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.Status != http.StatusBadGateway || e.Code != openai.CodeUpstream {
		t.Errorf("the answer is %v", err)
		return
	}
	for _, r := range reasons {
		if strings.Contains(e.Message, r) {
			return
		}
	}
	t.Errorf("the answer is %q, want a reason of %q", e.Message, reasons)
}
