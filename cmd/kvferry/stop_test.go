package main_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// leftSlices finds slices that left in an engine's metrics.
var leftSlices = regexp.MustCompile(`kvferry_transfer_slices_total\{direction="out",role="prefill"\} [1-9]`)

// TestDrain: Ctrl-C and SIGTERM let the running answers end as they should, refuse what comes
// after, and end every process with status 0.
//
// req: SERVE-03
// case: 16
func TestDrain(t *testing.T) {
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	if testing.Short() {
		signals = signals[1:]
	}
	for _, sig := range signals {
		c := up(t)
		pids := c.all(t)
		r := long(1, 700)
		streamed := c.open(t, t.Context(), r, 3)
		whole := c.send(t, long(2, 700))
		c.busy(t, "decode", func(s node.State) bool { return s.Requests.Running == 2 && s.Sessions.Receive == 0 })
		c.signal(sig)
		e2etest.Await(t, 10*time.Second, "new requests are refused", func() error {
			_, err := c.Complete(t.Context(), short(3))
			var e *openai.Error
			if !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
				return errors.Join(errors.New("a new request: "), err)
			}
			return nil
		})
		unharmed(t, r, await(t, streamed))
		unharmed(t, long(2, 700), await(t, whole))
		if status := c.end(t); status != 0 {
			t.Errorf("%v: exit status %d", sig, status)
		}
		awaitGone(t, time.Second, pids...)
	}
}

// TestSecondSignal: a second Ctrl-C waits for nothing.
func TestSecondSignal(t *testing.T) {
	c := up(t)
	pids := c.all(t)
	running := c.open(t, t.Context(), long(1, 7000), 3)
	c.signal(syscall.SIGINT)
	c.refuses(t)
	began := time.Now()
	c.signal(syscall.SIGINT)
	c.end(t)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it ended after %s", took)
	}
	awaitGone(t, time.Second, pids...)
	if s := await(t, running); s.err == nil {
		t.Error("the answer was awaited")
	}
}

// refuses waits until the router drains.
func (c *cluster) refuses(t *testing.T) {
	t.Helper()
	e2etest.Await(t, 10*time.Second, "the router drains", func() error {
		var ready struct {
			Ready bool `json:"ready"`
		}
		if err := c.Get(t.Context(), "/ready", &ready); err != nil {
			return err
		}
		if ready.Ready {
			return errors.New("it is ready")
		}
		return nil
	})
}

// TestParentKilled: kill -9 of `up` leaves no process behind.
func TestParentKilled(t *testing.T) {
	c := up(t, "--decode", "2")
	pids := c.all(t)
	if len(pids) != 4 {
		t.Fatalf("the children are %v", c.children(t))
	}
	kill(t, c.pid())
	c.end(t)
	awaitGone(t, 10*time.Second, pids...)
}

// TestStoppedPrefill: a prefill engine is stopped (not killed) in mid-push. The decode engine
// gives its blocks back after the time-out, and when the writes of the stopped one come after
// all, they do not touch what another request has in those blocks by then.
//
// req: PIPE-19, PIPE-32
// case: 05
func TestStoppedPrefill(t *testing.T) {
	const timeout = time.Second
	any0, small := "127.0.0.1:0", []string{"--kv-transfer-timeout", timeout.String(), "--chunk-tokens", "16"}
	launchEngine := func(role string, args ...string) *process {
		return launch(t, append(append([]string{role, "--listen", any0}, small...), args...)...)
	}
	stuck, other := launchEngine("prefill", "--pipelined"), launchEngine("prefill", "--pipelined")
	// So few blocks that the next request must have the stuck one's.
	d := launchEngine("decode", "--kv-blocks", "180", "--enable-block-reuse=false")
	decode := e2etest.NewClient(d.ready(t), models.TinyName)
	defer decode.Close()
	r := launch(t, "router", "--listen", any0, "--prefill", stuck.ready(t), "--prefill", other.ready(t), "--decode", decode.URL)
	c := &cluster{r, e2etest.NewClient(r.ready(t), models.TinyName)}
	defer c.Close()
	c.awaitIdle(t)

	victim := c.send(t, longPrompt(1)) // round robin: the first engine
	c.busy(t, "prefill", func(s node.State) bool { return s.PID == stuck.pid() && s.Sessions.Send == 1 })
	c.sent(t, stuck.pid())
	stuck.signal(syscall.SIGSTOP)
	defer stuck.signal(syscall.SIGCONT)
	s := await(t, victim)
	var e *openai.Error
	if !errors.As(s.err, &e) || e.Status != http.StatusGatewayTimeout {
		t.Errorf("the client of the stopped engine: %v", s.err)
	}
	e2etest.Await(t, e2etest.Soon, "decode has its blocks back", func() error { return idle(c.engines(t, "decode")[d.pid()]) })

	next := longPrompt(2).With(map[string]any{"max_tokens": 200})
	running := c.send(t, next)
	// The router would wait for the stopped engine before it tells.
	e2etest.Await(t, waitLong, "decode has all of it", func() error {
		var s node.State
		if err := decode.Get(t.Context(), "/debug/state", &s); err != nil {
			return err
		}
		if s.Requests.Running != 1 || s.Sessions.Receive != 0 {
			return fmt.Errorf("it holds %+v", s)
		}
		return nil
	})
	stuck.signal(syscall.SIGCONT)
	unharmed(t, next, await(t, running))
	c.awaitIdle(t)
	c.same(t, short(3))
	c.same(t, short(4))
}

// TestStopWhileStarting: Ctrl-C does not wait for a model that takes long to load.
func TestStopWhileStarting(t *testing.T) {
	model := filepath.Join(t.TempDir(), "slow.gguf")
	if err := syscall.Mkfifo(model, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"up", "--listen", "127.0.0.1:0"}} {
		p := launch(t, append(args, "--model", model)...)
		// The model is being read once somebody may write to it.
		writer := make(chan *os.File, 1)
		go func() {
			f, err := os.OpenFile(model, os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			writer <- f
		}()
		f := <-writer
		pids := append((&cluster{process: p}).all(t), p.pid())
		began := time.Now()
		p.signal(syscall.SIGINT)
		status := p.end(t)
		if took := time.Since(began); status != 0 || took > 3*time.Second {
			t.Errorf("%s: exit status %d after %s", args[0], status, took)
		}
		awaitGone(t, time.Second, pids...)
		f.Close()
	}
}
