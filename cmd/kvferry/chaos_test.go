package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// TestKillsAtAnyTime kills engines and the router at moments that have nothing to do with
// what they are doing, while clients ask. Every request ends, with the right answer or with an
// error; once nobody is killed any more all are served, and nothing is left behind.
//
// req: SERVE-04
func TestKillsAtAnyTime(t *testing.T) {
	c := up(t, "--prefill", "2", "--decode", "2", "--chunk-tokens", "16")
	requests := map[int]e2etest.Request{}
	wants := map[int]*e2etest.Answer{}
	for n := range 4 {
		r := short(n).With(map[string]any{"max_tokens": 5 + 30*n})
		r.Stream = n%2 == 0
		requests[n], wants[n] = r, aggregated.Answer(t, e2etest.Config(), r)
	}
	ctx, stop := context.WithCancel(t.Context())
	var served, failed atomic.Int64
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for n := client; ctx.Err() == nil; n++ {
				n %= len(requests)
				if ends(t, c, requests[n], wants[n]) == nil {
					served.Add(1)
					continue
				}
				failed.Add(1)
				_ = node.AwaitReady(ctx, strings.TrimPrefix(c.URL, "http://")) // it ends with ctx
			}
		})
	}
	rng := rand.New(rand.NewPCG(4, 4))
	kills := 6
	if testing.Short() {
		kills = 2
	}
	for range kills {
		goal := served.Load() + 2 + rng.Int64N(6)
		e2etest.Await(t, waitLong, "more is served", func() error {
			if now := served.Load(); now < goal {
				return fmt.Errorf("%d are, want %d", now, goal)
			}
			return nil
		})
		victims := c.all(t)
		_ = syscall.Kill(victims[rng.IntN(len(victims))], syscall.SIGKILL)
	}
	stop()
	wg.Wait()
	t.Logf("%d served, %d failed", served.Load(), failed.Load())
	c.awaitIdle(t)
	for n, r := range requests {
		if err := ends(t, c, r, wants[n]); err != nil {
			t.Errorf("after all: %v", err)
		}
	}
	c.awaitIdle(t)
}

// ends sends a request, which must end with the right answer or with one of the errors that a
// kill may be told by: the engine's as the router says it, or the router's broken connection.
func ends(t *testing.T, c *cluster, r e2etest.Request, want *e2etest.Answer) error {
	ctx, cancel := context.WithTimeout(t.Context(), waitLong)
	defer cancel()
	got, err := c.Complete(ctx, r)
	if err == nil {
		if wrong := got.Differs(want); wrong != nil {
			t.Errorf("a wrong answer: %v", wrong)
		}
		return nil
	}
	var e *openai.Error
	var broken *net.OpError
	switch {
	case errors.As(err, &e) && (e.Status >= 502 || e.Status == 0 && e.Type != ""):
	case errors.As(err, &broken), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
	default:
		t.Errorf("a request ended with %v", err)
	}
	return err
}
