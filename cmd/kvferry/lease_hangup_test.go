package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kvferry/node/e2etest"
	"kvferry/openai/httpapi"
)

// few is a request with a prompt of some tokens.
func few(n int) e2etest.Request {
	return e2etest.Request{Prompt: fmt.Sprint(n, " leave")}.With(greedy).With(map[string]any{"max_tokens": 4})
}

// TestHangUpBeforeDecode: 500 clients leave after prefill answered and before decode admitted them.
// Prefill has all blocks back at once, though its leases last for half a minute, and decode's queue
// holds none of them.
//
// req: LEASE-21
// case: 06
func TestHangUpBeforeDecode(t *testing.T) {
	c := deployment{decode: []string{"--max-seqs=1"}, router: contextFirst}.start(t)
	leave := occupy(t, c.d[0])
	const rounds, each = 10, 50
	for round := range rounds {
		ctx, hang := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for n := range each {
			clients.Go(func() {
				r := few(each*round + n)
				r.Stream = n%2 == 0
				if _, err := c.router.Complete(ctx, r); !errors.Is(err, context.Canceled) {
					t.Errorf("a request ended before its client left: %v", err)
				}
			})
		}
		c.p.leases(t, each)
		if round%2 == 0 { // else some leave on the way from one engine to the other
			c.d[0].queue(t, each)
		}
		hang()
		clients.Wait()
		e2etest.Await(t, baselineSoon, "prefill is at its baseline", func() error { return idle(c.p.state(t)) })
		e2etest.Await(t, baselineSoon, "decode's queue is", func() error {
			if n := waiting(t, c.d[0]); n > 0 {
				return fmt.Errorf("%d wait", n)
			}
			return nil
		})
	}
	leave()
	s := await(t, c.send(t, few(1)))
	right(t, few(1), s.answer, s.err)
	if n := c.p.metric(t, expiredLeases); n != 0 {
		t.Errorf("%v leases expired", n)
	}
	baseline(t, c.p, c.d[0])
}

// TestAbortInQueue: a decode engine whose client leaves before its turn tells prefill, which has the
// blocks back at once. No router helps.
//
// req: LEASE-08, LEASE-21
func TestAbortInQueue(t *testing.T) {
	c := deployment{decode: []string{"--max-seqs=1"}}.start(t)
	leave := occupy(t, c.d[0])
	for n := range 3 {
		ctx, hang := context.WithCancel(t.Context())
		handle := c.p.handle(t, few(n))
		gone := make(chan error, 1)
		go func() {
			_, err := c.d[0].Complete(ctx, with(few(n), handle))
			gone <- err
		}()
		c.d[0].queue(t, 1)
		c.p.leases(t, 1)
		hang()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the request ended before its client left: %v", err)
		}
		baseline(t, c.p)
	}
	leave()
	baseline(t, c.p, c.d[0])
}

// TestLegWithdrawn: a prefill leg that the router named can be withdrawn by that name, when its
// prompt is computed too and the handle was given.
//
// req: LEASE-21
// case: 04
func TestLegWithdrawn(t *testing.T) {
	c := deployment{}.start(t)
	name := strings.Repeat("5a", 16)
	c.p.Header.Set(httpapi.HeaderLeg, name)
	handle := c.p.handle(t, few(1))
	c.p.Header.Del(httpapi.HeaderLeg)
	other := c.p.handle(t, few(2))
	c.p.leases(t, 2)
	for range 2 { // it may be said twice
		resp, err := c.p.Post(t.Context(), httpapi.PathRelease, []byte(`{"do_remote_decode":true,"remote_request_id":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Fatal(resp.Status)
		}
		c.p.leases(t, 1)
	}
	_, err := c.d[0].Complete(t.Context(), with(few(1), handle))
	failedWith(t, err, "cancelled", "client left", "lapsed")
	got, err := c.d[0].Complete(t.Context(), with(few(2), other))
	right(t, few(2), got, err)
	baseline(t, c.p, c.d[0])
}

// TestImpatientClients: 200 clients whose time-out is about as long as prefill takes, so that they
// leave while it ends, and who then ask again. Each is served, and prefill does not hold for half a
// minute what nobody will read.
//
// req: LEASE-21
// case: 04
func TestImpatientClients(t *testing.T) {
	c := deployment{router: contextFirst}.start(t)
	requests := 200
	if e2etest.Race {
		requests = 50
	}
	impatient := func(n int) e2etest.Request { return short(n).With(map[string]any{"max_tokens": 2}) }
	took := c.prefillTime(t, impatient(0))
	left := 0
	for n := range requests {
		patience := took * time.Duration(requests/2+n) / time.Duration(requests) // from half to one and a half
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := c.router.Complete(ctx, impatient(n))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			left++
			got, err = c.router.Complete(t.Context(), impatient(n))
		}
		right(t, impatient(n), got, err)
	}
	t.Logf("prefill takes %s; %d of %d clients left", took, left, requests)
	if left < requests/4 {
		t.Errorf("only %d clients left", left)
	}
	baseline(t, c.p, c.d[0])
	if n := c.p.metric(t, expiredLeases); n != 0 {
		t.Errorf("%v leases expired", n)
	}
}

// prefillTime is the median of how long the prefill leg of such a request takes.
func (c *parts) prefillTime(t *testing.T, r e2etest.Request) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 9 {
		began := time.Now()
		handle := c.p.handle(t, r)
		all = append(all, time.Since(began))
		got, err := c.d[0].Complete(t.Context(), with(r, handle))
		right(t, r, got, err)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
