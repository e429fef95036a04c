package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// cluster is what one `up` started.
type cluster struct {
	*process
	*e2etest.Client
}

// up starts `kvferry up` and waits until all of it is ready.
func up(t *testing.T, args ...string) *cluster {
	t.Helper()
	p := launch(t, append([]string{"up", "--listen", "127.0.0.1:0"}, args...)...)
	c := &cluster{p, e2etest.NewClient(p.ready(t), models.TinyName)}
	t.Cleanup(c.Client.Close)
	c.awaitIdle(t)
	return c
}

// state asks the router for everything.
func (c *cluster) state(t *testing.T) (e2etest.RouterState, error) {
	var s e2etest.RouterState
	err := c.Get(t.Context(), "/debug/state", &s)
	return s, err
}

// engines are the states of a role's engines, by PID.
func (c *cluster) engines(t *testing.T, role string) map[int]node.State {
	t.Helper()
	s, err := c.state(t)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]node.State{}
	for _, e := range s.Engines {
		if e.Role == role && e.State != nil {
			out[e.PID] = *e.State
		}
	}
	return out
}

// busy waits until one engine of a role holds a request that is as wanted, and gives its PID.
func (c *cluster) busy(t *testing.T, role string, want func(node.State) bool) int {
	t.Helper()
	pid := 0
	e2etest.Await(t, waitLong, "a "+role+" engine is busy", func() error {
		for p, s := range c.engines(t, role) {
			if want(s) {
				pid = p
				return nil
			}
		}
		return errors.New("none is")
	})
	return pid
}

// awaitIdle waits until every engine is ready and holds nothing, and no request runs.
func (c *cluster) awaitIdle(t *testing.T) {
	t.Helper()
	e2etest.Await(t, waitLong, "everything is at its baseline", func() error {
		s, err := c.state(t)
		if err != nil {
			return err
		}
		if s.Requests.Running > 0 {
			return fmt.Errorf("%d requests run", s.Requests.Running)
		}
		for _, e := range s.Engines {
			if !e.Ready || e.State == nil {
				return fmt.Errorf("%s engine %d is not ready", e.Role, e.PID)
			}
			if err := idle(*e.State); err != nil {
				return fmt.Errorf("%s engine %d: %w", e.Role, e.PID, err)
			}
		}
		return nil
	})
}

// idle says what an engine still holds.
func idle(s node.State) error {
	if s.Pool.Free != s.Pool.Total || s.Requests != (node.RequestState{}) || s.Sessions != (node.SessionsState{}) ||
		s.Leases != 0 || s.Parked != 0 {
		return fmt.Errorf("it holds %+v", s)
	}
	return nil
}

// children are the PIDs of the processes that `up` started, by command.
func (c *cluster) children(t *testing.T) map[string][]int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("there is no /proc here to find children in")
	}
	out := map[string][]int{}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var name, state string
		if n, _ := fmt.Sscanf(string(stat), "%d %s %s %d", &pid, &name, &state, &parent); n < 4 || parent != c.pid() {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if f := strings.Split(string(args), "\x00"); err == nil && len(f) > 1 {
			out[f[1]] = append(out[f[1]], pid)
		}
	}
	return out
}

// all are the PIDs of every child.
func (c *cluster) all(t *testing.T) []int {
	t.Helper()
	var out []int
	for _, pids := range c.children(t) {
		out = append(out, pids...)
	}
	return out
}

// same has a request answered and compares with the aggregated engine.
func (c *cluster) same(t *testing.T, r e2etest.Request) {
	t.Helper()
	want := aggregated.Answer(t, e2etest.Config(), r)
	got, err := c.Complete(t.Context(), r)
	if err == nil {
		err = got.Differs(want)
	}
	if err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// The prompts of these tests.
const prose = "It was a fine morning in the early part of October when Mrs. Weston, having " +
	"finished her letter, resolved to walk as far as the village before the rain came on."

var greedy = map[string]any{"temperature": 0, "ignore_eos": true}

// short is a request like any other, and differs with its number.
func short(n int) e2etest.Request {
	return e2etest.Request{Prompt: fmt.Sprint(n, " ", prose)}.With(greedy).With(map[string]any{"max_tokens": 12, "logprobs": 2})
}

// long is an answer of so many tokens, fewer under the race detector.
func long(n, tokens int) e2etest.Request {
	if e2etest.Race {
		tokens /= 3
	}
	return short(n).With(map[string]any{"max_tokens": tokens})
}

// longPrompt takes long to prefill.
func longPrompt(n int) e2etest.Request {
	repeat := 60
	if e2etest.Race {
		repeat = 15
	}
	r := short(n)
	r.Prompt = fmt.Sprint(n, strings.Repeat(" "+prose, repeat))
	return r
}
