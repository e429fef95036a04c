package main_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"kvferry/node"
	"kvferry/node/e2etest"
)

// TestContextFirst: sixteen clients at once, completions and chats, streamed and not, whose prompts
// one of two engines computes and another one of two reads: the answers are the aggregated
// engine's, every prompt was read, and nothing stays.
//
// req: LEASE-12, SERVE-02
func TestContextFirst(t *testing.T) {
	c := up(t, "--schedule-style=context_first", "--prefill=2", "--decode=2", "--chunk-tokens=40",
		"--kv-lease-duration=2s", "--decoder-kv-blocks-ttl=0s", "--enable-block-reuse=false")
	const clients = 16
	each := 4
	if e2etest.Race {
		each = 2
	}
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range each {
				r := short(100*client + n)
				if n%2 == 1 {
					r = e2etest.Request{Messages: []e2etest.Message{{Role: "user", Content: r.Prompt.(string)}}}.
						With(greedy).With(map[string]any{"max_tokens": 8 + client})
				}
				r.Stream = client%4 < 2
				c.same(t, r)
			}
		})
	}
	all.Wait()
	c.awaitIdle(t)
	read, expired := 0.0, 0.0
	for _, e := range c.parts(t) {
		read += e.metric(t, pulls)
		expired += e.metric(t, expiredLeases)
	}
	if read != float64(clients*each) || expired != 0 {
		t.Errorf("%v prompts were read and %v expired, of %d", read, expired, clients*each)
	}
}

// parts are the engines of `up`.
func (c *cluster) parts(t *testing.T) []*part {
	t.Helper()
	s, err := c.state(t)
	if err != nil {
		t.Fatal(err)
	}
	var out []*part
	for _, e := range s.Engines {
		one := e2etest.NewClient(e.URL, c.Model)
		t.Cleanup(one.Close)
		out = append(out, &part{Client: one})
	}
	return out
}

// styles are the router's.
var styles = []string{"context_first", "generation_first"}

// TestQueueTenLeases: a request that waits at decode for ten leases' time loses nothing, whether
// its prompt is read or written. Another engine's time-out would have been over long before.
//
// req: LEASE-05, LEASE-07, LEASE-24
func TestQueueTenLeases(t *testing.T) {
	const duration = 600 * time.Millisecond
	for _, style := range styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			c := deployment{
				prefill: []string{"--kv-lease-duration=" + duration.String(), "--kv-transfer-timeout=" + (5 * duration).String()},
				decode:  []string{"--max-seqs=1"},
				router:  []string{"--schedule-style=" + style},
			}.start(t)
			leave := occupy(t, c.d[0])
			answer := c.send(t, short(1))
			c.d[0].queue(t, 1)
			c.p.renewed(t, 1)
			began := time.Now()
			e2etest.Await(t, waitLong, "ten leases pass", func() error {
				select {
				case s := <-answer:
					t.Fatalf("the request ended in the queue: %v", s.err)
				default:
				}
				if past := time.Since(began); past < 10*duration {
					return fmt.Errorf("%s have", past)
				}
				return nil
			})
			most := float64(time.Since(began)/(duration/6)) + 3 // some went with the claim
			if n := c.p.metric(t, renewals); n < 20 || n > most {
				t.Errorf("%v heartbeats in ten leases, want about 60 and at most %v", n, most)
			}
			c.d[0].queue(t, 1)
			leave()
			s := await(t, answer)
			right(t, short(1), s.answer, s.err)
			if n := c.p.metric(t, expiredLeases); n != 0 {
				t.Errorf("%v leases expired", n)
			}
			baseline(t, c.p, c.d[0])
		})
	}
}

// TestQueueOf128: decode takes four requests at a time, so that most of 128 wait for more than two
// leases: all are answered, and no lease expires.
//
// req: LEASE-05, LEASE-06
// case: 03
func TestQueueOf128(t *testing.T) {
	const duration, requests = 600 * time.Millisecond, 128
	for _, style := range styles {
		t.Run(style, func(t *testing.T) {
			c := deployment{
				prefill: []string{"--kv-lease-duration=" + duration.String(), "--kv-transfer-timeout=1s"},
				decode:  []string{"--max-seqs=4"},
				router:  []string{"--schedule-style=" + style},
			}.start(t)
			output := 50
			if e2etest.Race {
				output = 12
			}
			r := func(n int) e2etest.Request {
				return e2etest.Request{Prompt: fmt.Sprint(n, " lines")}.With(greedy).With(map[string]any{"max_tokens": output})
			}
			for n := range requests {
				aggregated.Answer(t, e2etest.Config(), r(n)) // remembers it, so that it takes no time later
			}
			began := time.Now()
			var answers []<-chan stream
			for n := range requests {
				answers = append(answers, c.send(t, r(n)))
			}
			c.d[0].holds(t, "most wait", func(s node.State) bool { return s.Requests.Waiting > requests/2 })
			for n, ch := range answers {
				s := await(t, ch)
				right(t, r(n), s.answer, s.err)
			}
			if took := time.Since(began); took < 2*duration {
				t.Errorf("all were answered after %s", took)
			}
			if n := c.p.metric(t, expiredLeases); n != 0 {
				t.Errorf("%v leases expired", n)
			}
			baseline(t, c.p, c.d[0])
		})
	}
}

// TestDecodeDies: once the engine that claims a lease is killed, prefill has the blocks back at the
// end of the lease or of its last renewal, whichever is the later: not before, and soon after.
//
// req: LEASE-01, LEASE-03, LEASE-04
func TestDecodeDies(t *testing.T) {
	const duration, extension, slack = time.Second, time.Second * 2 / 3, time.Second
	for _, tc := range []struct {
		what    string
		renewed float64
	}{
		{"soon after the grant", 1},
		{"when renewals count", 9},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			c := deployment{
				prefill: []string{"--kv-lease-duration=" + duration.String()},
				decode:  []string{"--max-seqs=1"},
			}.start(t)
			occupy(t, c.d[0])
			asked := time.Now()
			handle := c.p.handle(t, short(1))
			granted := time.Now() // or before, but after asked
			ctx, hang := context.WithCancel(t.Context())
			defer hang()
			gone := make(chan error, 1)
			go func() {
				_, err := c.d[0].Complete(ctx, with(short(1), handle))
				gone <- err
			}()
			c.p.renewed(t, tc.renewed-1)
			beat := c.beat(t, tc.renewed)
			c.d[0].kill(t)
			if err := <-gone; err == nil {
				t.Error("a killed engine answers")
			}
			dead := time.Now()
			c.p.leases(t, 0)
			free := time.Now()
			if due := later(asked.Add(duration), beat.Add(extension)); free.Before(due) {
				t.Errorf("the lease ended %s early", due.Sub(free))
			}
			if due := later(granted.Add(duration), dead.Add(extension)); free.After(due.Add(slack)) {
				t.Errorf("the lease ended %s late", free.Sub(due))
			}
			t.Logf("reclaimed %s after the kill, %s after the grant, %s after the last heartbeat that was seen",
				free.Sub(dead), free.Sub(granted), free.Sub(beat))
			if n := c.p.metric(t, expiredLeases); n != 1 {
				t.Errorf("%v leases expired", n)
			}
			if n := c.p.metric(t, "kvferry_lease_reclaimed_blocks_total"); n == 0 {
				t.Error("no block was reclaimed")
			}
			baseline(t, c.p)
		})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// beat waits for a heartbeat, and gives a time that was before it.
func (c *parts) beat(t *testing.T, n float64) time.Time {
	t.Helper()
	var before time.Time
	e2etest.Await(t, waitLong, "a heartbeat comes", func() error {
		now := time.Now()
		if got := c.p.metric(t, renewals); got < n {
			before = now
			return fmt.Errorf("%v have", got)
		}
		if before.IsZero() {
			n++ // it came before we looked: the next one
			return fmt.Errorf("the one after that has not")
		}
		return nil
	})
	return before
}
