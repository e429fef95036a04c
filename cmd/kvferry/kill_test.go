package main_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// stream is an answer that is read by itself until it ends.
type stream struct {
	answer *e2etest.Answer
	err    error
	took   time.Duration // until it ended
}

// open begins a stream, reads its first events and leaves the rest to be read. What comes of it
// is given when it ends.
func (c *cluster) open(t *testing.T, ctx context.Context, r e2etest.Request, events int) <-chan stream {
	t.Helper()
	s, err := c.Open(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	for range events {
		if err := s.Next(); err != nil {
			t.Fatalf("the stream ended early: %v", err)
		}
	}
	return rest(s)
}

func rest(s *e2etest.Stream) <-chan stream {
	ch := make(chan stream, 1)
	began := time.Now()
	go func() {
		a, err := s.Rest()
		ch <- stream{a, err, time.Since(began)}
	}()
	return ch
}

// send sends a request and gives what comes of it.
func (c *cluster) send(t *testing.T, r e2etest.Request) <-chan stream {
	ch := make(chan stream, 1)
	began := time.Now()
	ctx := t.Context()
	go func() {
		a, err := c.Complete(ctx, r)
		ch <- stream{a, err, time.Since(began)}
	}()
	return ch
}

// await waits for what comes of a request.
func await(t *testing.T, ch <-chan stream) stream {
	t.Helper()
	late := time.NewTimer(waitLong)
	defer late.Stop()
	select {
	case s := <-ch:
		return s
	case <-late.C:
		t.Fatal("the request does not end")
		return stream{}
	}
}

// unharmed checks that a request got its answer.
func unharmed(t *testing.T, r e2etest.Request, s stream) {
	t.Helper()
	want := aggregated.Answer(t, e2etest.Config(), r)
	if s.err == nil {
		s.err = s.answer.Differs(want)
	}
	if s.err != nil {
		t.Errorf("a request that had nothing to do with it: %v", s.err)
	}
}

// restarted waits until `up` has started a child again, told so, and everything is as before
// with another process in the dead one's place.
func (c *cluster) restarted(t *testing.T, role string, dead int) {
	t.Helper()
	c.says(t, role+`(-\d)? died \(signal: killed\); starting it again\n`)
	c.says(t, role+`(-\d)? is back: http://`)
	awaitGone(t, time.Second, dead)
	c.awaitIdle(t)
	if pids := c.children(t)[role]; slices.Contains(pids, dead) || len(pids) == 0 {
		t.Errorf("%s is %v after %d died", role, pids, dead)
	}
}

// sizes are one engine of each role, and two.
func sizes() [][]string {
	two := []string{"--prefill", "2", "--decode", "2"}
	if testing.Short() {
		return [][]string{two}
	}
	return [][]string{nil, two}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// engineLost checks what the client of a killed engine is told.
func engineLost(t *testing.T, role string, s stream) {
	t.Helper()
	var e *openai.Error
	if !errors.As(s.err, &e) {
		t.Fatalf("the request of the killed %s engine: %v", role, s.err)
	}
	if e.Type != openai.TypeUpstream || e.Code != openai.CodeUpstream || e.Status != 0 && e.Status != http.StatusBadGateway {
		t.Errorf("the request of the killed %s engine: %v, code %q", role, e, e.Code)
	}
	if s.took > 5*time.Second {
		t.Errorf("its client was told after %s", s.took)
	}
}

// TestKillDecode: kill -9 of a decode engine in mid-stream ends its stream with an error event.
// The stream of another engine goes on, `up` starts the engine again, and the next request is
// served.
//
// req: SERVE-03, SERVE-04
func TestKillDecode(t *testing.T) {
	for _, args := range sizes() {
		c := up(t, args...)
		decoding := func(s node.State) bool { return s.Requests.Running == 1 && s.Sessions.Receive == 0 }
		victim := c.open(t, t.Context(), long(1, 3000), 5)
		pid := c.busy(t, "decode", decoding)
		var other <-chan stream
		if args != nil {
			other = c.open(t, t.Context(), long(2, 400), 2) // round robin: the other engine
		}
		kill(t, pid)
		engineLost(t, "decode", await(t, victim))
		if args != nil {
			unharmed(t, long(2, 400), await(t, other))
			c.same(t, short(3)) // by the engine that is left
		}
		c.restarted(t, "decode", pid)
		c.same(t, short(4))
		c.same(t, short(5).Streamed())
		c.awaitIdle(t)
	}
}

// TestKillPrefill: kill -9 of a prefill engine in mid-prefill, some chunks of the prompt having
// been sent, is a clear error for its client alone, and the decode engine gets its blocks back.
//
// req: SERVE-03, SERVE-04, PIPE-18
// case: 05
func TestKillPrefill(t *testing.T) {
	for _, args := range sizes() {
		c := up(t, append([]string{"--chunk-tokens", "16"}, args...)...)
		var other <-chan stream
		if args != nil {
			other = c.open(t, t.Context(), long(1, 600), 2)
		}
		victim := c.send(t, longPrompt(2).Streamed())
		pid := c.busy(t, "prefill", func(s node.State) bool { return s.Sessions.Send == 1 })
		c.sent(t, pid)
		kill(t, pid)
		s := await(t, victim)
		engineLost(t, "prefill", s)
		if args != nil {
			unharmed(t, long(1, 600), await(t, other))
			c.same(t, short(3))
		}
		c.restarted(t, "prefill", pid)
		c.same(t, short(4))
		c.awaitIdle(t)
	}
}

// sent waits until some slices of an engine have left while it still prefills.
func (c *cluster) sent(t *testing.T, pid int) {
	t.Helper()
	s, err := c.state(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.Engines {
		if e.PID != pid {
			continue
		}
		client := e2etest.NewClient(e.URL, models.TinyName)
		defer client.Close()
		e2etest.Await(t, waitLong, "slices have left", func() error {
			got, err := client.Text(t.Context(), "/metrics")
			if err == nil && !leftSlices.Match(got) {
				err = errors.New("none has")
			}
			return err
		})
		return
	}
	t.Fatalf("no engine has PID %d", pid)
}

// TestKillRouter: kill -9 of the router breaks the streams that go through it, and no more: the
// engines are rid of the work, and the new router serves at the same address.
//
// req: SERVE-03, SERVE-04
func TestKillRouter(t *testing.T) {
	c := up(t)
	engines := c.children(t)
	pid := engines["router"][0]
	streamed := c.open(t, t.Context(), long(1, 3000), 5)
	whole := c.send(t, long(2, 3000))
	c.busy(t, "decode", func(s node.State) bool { return s.Requests.Running == 2 && s.Sessions.Receive == 0 })
	kill(t, pid)
	for _, ch := range []<-chan stream{streamed, whole} {
		s := await(t, ch)
		var e *openai.Error
		if s.err == nil || errors.As(s.err, &e) || errors.Is(s.err, io.EOF) && s.answer != nil {
			t.Errorf("the answer of a killed router ended with %v", s.err)
		}
	}
	c.restarted(t, "router", pid)
	now := c.children(t)
	delete(now, "router")
	delete(engines, "router")
	if !maps.EqualFunc(now, engines, slices.Equal[[]int]) {
		t.Errorf("the engines were %v and are %v", engines, now)
	}
	c.same(t, short(3))
	c.awaitIdle(t)
}

// TestHangUp: a client that leaves `up` takes its work away from all processes within two
// seconds.
//
// req: SERVE-03
// case: 13
func TestHangUp(t *testing.T) {
	c := up(t, "--chunk-tokens", "16")
	for what, tc := range map[string]struct {
		r    e2etest.Request
		role string
		when func(node.State) bool
	}{
		"prefilling": {longPrompt(1), "prefill", func(s node.State) bool { return s.Sessions.Send == 1 }},
		"decoding":   {long(1, 3000), "decode", func(s node.State) bool { return s.Requests.Running == 1 && s.Sessions.Receive == 0 }},
	} {
		for _, stream := range []bool{false, true} {
			ctx, hang := context.WithCancel(t.Context())
			tc.r.Stream = stream
			gone := make(chan error, 1)
			go func() {
				_, err := c.Complete(ctx, tc.r)
				gone <- err
			}()
			c.busy(t, tc.role, tc.when)
			hang()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the request ended before its client left: %v", what, err)
			}
			e2etest.Await(t, e2etest.Soon, "everything is at its baseline", func() error {
				for _, role := range []string{"prefill", "decode"} {
					for _, s := range c.engines(t, role) {
						if err := idle(s); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
	}
	c.same(t, short(2))
}
