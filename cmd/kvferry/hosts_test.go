//go:build linux

package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// insideHosts is set where the test runs on the host of the router and the client.
const insideHosts = "KVFERRY_TEST_HOSTS"

// hosts are network namespaces that the test makes and removes: a prefill engine's, a decode
// engine's, and the client's with the router. KV has a link of its own.
type hosts struct{ prefill, decode, client string }

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// makeHosts makes the namespaces and links, or skips where that is not allowed.
func makeHosts(t *testing.T) hosts {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("making network namespaces takes iproute2: %v", err)
	}
	h := hosts{}
	for _, c := range []struct {
		name *string
		kind string
	}{{&h.prefill, "p"}, {&h.decode, "d"}, {&h.client, "c"}} {
		*c.name = fmt.Sprintf("kvf%s%d", c.kind, os.Getpid())
		if err := ip("netns", "add", *c.name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ip("netns", "del", *c.name); err != nil {
				t.Error(err)
			}
		})
		if err := ip("-n", *c.name, "link", "set", "lo", "up"); err != nil {
			t.Fatal(err)
		}
	}
	h.link(t, "kv", h.prefill, "10.77.0.1", h.decode, "10.77.0.2")
	h.link(t, "ctl", h.prefill, "10.77.1.1", h.client, "10.77.1.2")
	h.link(t, "ctm", h.decode, "10.77.2.1", h.client, "10.77.2.2")
	return h
}

func (h hosts) link(t *testing.T, name, a, addrA, b, addrB string) {
	for _, args := range [][]string{
		{"-n", a, "link", "add", name, "type", "veth", "peer", "name", name, "netns", b},
		{"-n", a, "addr", "add", addrA + "/30", "dev", name},
		{"-n", b, "addr", "add", addrB + "/30", "dev", name},
		{"-n", a, "link", "set", name, "up"},
		{"-n", b, "link", "set", name, "up"},
	} {
		if err := ip(args...); err != nil {
			t.Fatal(err)
		}
	}
}

// on is a command on a host.
func on(host string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", host}, args...)...)
}

// TestAcrossHosts runs prefill and decode on hosts of their own over a link of 8 Mbit/s that
// is taken down for a moment, and for so long that the peers give each other up. Each request
// ends with the aggregated run's tokens or with a clear error, then both sides are at their
// baseline, and with the link up again the next request is served.
//
// req: PIPE-29
func TestAcrossHosts(t *testing.T) {
	onHosts(t, acrossHosts)
}

// onHosts runs the body on the client's host, as this test in a process of its own.
func onHosts(t *testing.T, body func(t *testing.T, c crossing)) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	if names := os.Getenv(insideHosts); names != "" {
		p, d, _ := strings.Cut(names, ",")
		body(t, crossing{prefillHost: p, decodeHost: d})
		return
	}
	h := makeHosts(t)
	cmd := on(h.client, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%s", insideHosts, h.prefill, h.decode))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatal(err)
	}
}

// crossing is what runs on the hosts.
type crossing struct {
	prefillHost, decodeHost string
	prefill, decode         *e2etest.Client
	router                  *e2etest.Client
}

// Where the engines of a crossing are: HTTP towards the client, the agent on the link for KV.
const (
	prefillHTTP, prefillAgent = "10.77.1.1:8101", "10.77.0.1:8201"
	decodeHTTP, decodeAgent   = "10.77.2.1:8102", "10.77.0.2:8202"
)

// route waits for the engines and starts the router before them.
func (c *crossing) route(t *testing.T, prefill, decode *process) {
	c.prefill = e2etest.NewClient(prefill.ready(t), models.TinyName)
	c.decode = e2etest.NewClient(decode.ready(t), models.TinyName)
	r := launch(t, "router", "--listen=127.0.0.1:0", "--prefill="+c.prefill.URL, "--decode="+c.decode.URL)
	c.router = e2etest.NewClient(r.ready(t), models.TinyName)
	if err := node.AwaitReady(t.Context(), strings.TrimPrefix(c.router.URL, "http://")); err != nil {
		t.Fatal(err)
	}
}

func acrossHosts(t *testing.T, c crossing) {
	engine := func(host, role, http, agent string, more ...string) *process {
		args := []string{binary, role, "--listen=" + http, "--agent-listen=" + agent, "--kv-transfer-timeout=4s", "--log-level=info"}
		return begin(t, on(host, append(args, more...)...))
	}
	c.route(t,
		engine(c.prefillHost, "prefill", prefillHTTP, prefillAgent, "--pipelined", "--chunk-tokens=96"),
		engine(c.decodeHost, "decode", decodeHTTP, decodeAgent))
	c.slow(t)
	t.Run("a slow link", func(t *testing.T) { c.serves(t, 3) })
	t.Run("down for a moment", func(t *testing.T) { c.interrupted(t, time.Second) })
	t.Run("down for long", func(t *testing.T) { c.interrupted(t, 0) })
}

func (c crossing) slow(t *testing.T) {
	out, err := on(c.prefillHost, "tc", "qdisc", "add", "dev", "kv", "root", "tbf",
		"rate", "8mbit", "burst", "32kb", "latency", "400ms").CombinedOutput()
	if err != nil {
		t.Fatalf("tc: %v: %s", err, out)
	}
}

// letter is a prompt of about 1,500 tokens that no cache has seen.
func letter(i int) e2etest.Request {
	return e2etest.Request{
		Prompt: fmt.Sprintf("Letter %d. ", i) + strings.Repeat("She was not a woman of many words, and he had no more to say. ", 90),
		Params: map[string]any{"temperature": 0, "max_tokens": 24},
	}
}

func (c crossing) serves(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		r := letter(i)
		got, err := c.router.Complete(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		c.right(t, r, got)
	}
	c.idle(t)
}

func (c crossing) right(t *testing.T, r e2etest.Request, got *e2etest.Answer) {
	t.Helper()
	if err := got.Differs(aggregated.Answer(t, e2etest.Config(), r)); err != nil {
		t.Fatal(err)
	}
}

// idle waits until both engines hold nothing.
func (c crossing) idle(t *testing.T) {
	t.Helper()
	for _, e := range []*e2etest.Client{c.prefill, c.decode} {
		e2etest.Await(t, time.Minute, e.URL+" is at its baseline", func() error {
			var s node.State
			if err := e.Get(t.Context(), "/debug/state", &s); err != nil {
				return err
			}
			return idle(s)
		})
	}
}

// interrupted takes the link down in mid-transfer: for a while, or until the request has ended.
func (c crossing) interrupted(t *testing.T, down time.Duration) {
	r := letter(int(down) + 100)
	ended := c.inFlight(t, r)
	c.link(t, "down")
	var o outcome
	if down > 0 {
		lapse := time.NewTimer(down)
		defer lapse.Stop()
		<-lapse.C
		c.link(t, "up")
		o = <-ended
	} else {
		o = <-ended
		if o.err == nil {
			t.Error("the request ended well over a link that is down")
		}
		c.link(t, "up")
	}
	c.rightOrClear(t, r, o)
	c.idle(t)
	c.recovers(t, r)
}

// outcome is how a request ended.
type outcome struct {
	answer *e2etest.Answer
	err    error
}

// ask sends a request.
func (c crossing) ask(t *testing.T, r e2etest.Request) <-chan outcome {
	ended := make(chan outcome, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() {
		defer cancel()
		a, err := c.router.Complete(ctx, r)
		ended <- outcome{a, err}
	}()
	return ended
}

// inFlight sends a request, and waits until some of its slices have landed and more are to come.
func (c crossing) inFlight(t *testing.T, r e2etest.Request) <-chan outcome {
	t.Helper()
	before := c.landed(t)
	ended := c.ask(t, r)
	e2etest.Await(t, time.Minute, "a slice of it has landed", func() error {
		var s node.State
		if err := c.decode.Get(t.Context(), "/debug/state", &s); err != nil {
			return err
		}
		if s.Sessions.Receive == 0 || c.landed(t) == before {
			return errors.New("no slice")
		}
		return nil
	})
	return ended
}

// rightOrClear checks that a request ended with the right answer, or with an error that says why.
func (c crossing) rightOrClear(t *testing.T, r e2etest.Request, o outcome) {
	t.Helper()
	var failure *openai.Error
	switch {
	case o.err == nil:
		c.right(t, r, o.answer)
	case !errors.As(o.err, &failure) || failure.Status < 500 || failure.Message == "":
		t.Errorf("the request ended with %v", o.err)
	default:
		t.Logf("it ended with %v", o.err)
	}
}

// recovers waits until a request is served again, and nothing of it is left.
func (c crossing) recovers(t *testing.T, r e2etest.Request) {
	t.Helper()
	e2etest.Await(t, time.Minute, "the next request is served", func() error {
		got, err := c.router.Complete(t.Context(), r)
		if err == nil {
			c.right(t, r, got)
		}
		return err
	})
	c.idle(t)
}

// landed is the number of slices that the decode engine has received.
func (c crossing) landed(t *testing.T) int {
	t.Helper()
	return c.count(t, `kvferry_transfer_slices_total{direction="in"`)
}

// count is the decode engine's counter whose line of metrics begins so, 0 if it has none.
func (c crossing) count(t *testing.T, begin string) int {
	t.Helper()
	m, err := c.decode.Text(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(m), "\n") {
		if !strings.HasPrefix(line, begin) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	return 0
}

func (c crossing) link(t *testing.T, state string) {
	t.Helper()
	if err := ip("-n", c.prefillHost, "link", "set", "kv", state); err != nil {
		t.Fatal(err)
	}
}
