package main_test

import (
	"errors"
	"testing"
	"time"

	"kvferry/node"
	"kvferry/node/e2etest"
)

// told is how long a client may wait for the news once its engine can know it.
const told = 5 * time.Second

// TestPrefillDies: prefill is killed between its answer and decode's read. Under fail the client is
// told so, under recompute it gets its answer; decode holds nothing afterwards, and serves again
// what it has from somebody who lives.
//
// req: LEASE-17
// case: 10
func TestPrefillDies(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			c := deployment{
				prefill: []string{"--kv-lease-duration=1s"},
				decode:  []string{"--max-seqs=1", "--kv-load-failure-policy=" + policy},
				router:  contextFirst,
			}.start(t)
			leave := occupy(t, c.d[0])
			answer := c.send(t, short(1))
			c.d[0].queue(t, 1)
			c.p.renewed(t, 1)
			c.p.kill(t)
			c.d[0].alone(t)
			leave()
			free := time.Now()
			s := await(t, answer)
			if policy == node.RecomputePolicy {
				right(t, short(1), s.answer, s.err)
			} else {
				failedWith(t, s.err, "peer lost", "the peer is lost")
			}
			if took := time.Since(free); took > told {
				t.Errorf("the request ended %s after its turn had come", took)
			}
			baseline(t, c.d[0])
			if n := c.d[0].metric(t, pulls); n != 0 {
				t.Errorf("%v prompts were read of a dead engine", n)
			}
			got, err := c.d[0].Complete(t.Context(), short(2))
			right(t, short(2), got, err)
		})
	}
}

// TestPrefillStartsAgain: where prefill is killed and another process answers at its addresses,
// decode makes a new handshake and reads from it. What the dead one promised is refused by its
// name, also for a request that queued before.
//
// req: LEASE-09, LEASE-17
func TestPrefillStartsAgain(t *testing.T) {
	c := deployment{
		prefill: []string{"--kv-lease-duration=1s"}, decode: []string{"--max-seqs=1"}, router: contextFirst,
	}.start(t)
	s := await(t, c.send(t, short(1)))
	right(t, short(1), s.answer, s.err)
	old := c.p.handle(t, short(2))
	leave := occupy(t, c.d[0])
	waiting := c.send(t, short(3))
	c.d[0].queue(t, 1)
	c.p.renewed(t, 1)
	life := c.p.state(t).Life

	c.p = c.p.again(t)
	if now := c.p.state(t).Life; now == life {
		t.Fatalf("the new process has the old life %s", now)
	}
	leave()
	failedWith(t, await(t, waiting).err, "earlier life")
	_, err := c.d[0].Complete(t.Context(), with(short(2), old))
	failedWith(t, err, "earlier life")

	c.routes(t)
	for n := range 3 {
		s := await(t, c.send(t, short(4+n)))
		right(t, short(4+n), s.answer, s.err)
	}
	if n := c.d[0].metric(t, pulls); n != 4 {
		t.Errorf("%v prompts were read, want the one before and the three after", n)
	}
	baseline(t, c.p, c.d[0])
}

// TestDecodeDiesInQueue: decode is killed with requests in its queue whose prompts it has not read.
// The router gives their handles to another decode engine, which claims the leases anew and
// answers right. No prompt is computed twice.
//
// req: LEASE-12
// case: 17
func TestDecodeDiesInQueue(t *testing.T) {
	c := deployment{
		prefill: []string{"--kv-lease-duration=1s"}, decode: []string{"--max-seqs=1"}, decodes: 2, router: contextFirst,
	}.start(t)
	leave := []func(){occupy(t, c.d[0]), occupy(t, c.d[1])}
	const requests = 4
	var answers []<-chan stream
	for n := range requests {
		answers = append(answers, c.send(t, short(n).Streamed()))
	}
	c.p.leases(t, requests)
	var victim int
	e2etest.Await(t, waitLong, "all are in a queue, some in the first", func() error {
		first, second := waiting(t, c.d[0]), waiting(t, c.d[1])
		if first+second < requests || first == 0 {
			return errors.New("they are not")
		}
		victim = first
		return nil
	})
	passes := c.p.metric(t, "kvferry_forward_pass_seconds_count")
	c.d[0].kill(t)
	e2etest.Await(t, waitLong, "the second has all", func() error {
		if n := waiting(t, c.d[1]); n < requests {
			return errors.New("it has not")
		}
		return nil
	})
	for _, l := range leave {
		l()
	}
	prompt := 0
	for n, ch := range answers {
		s := await(t, ch)
		right(t, short(n), s.answer, s.err)
		if s.answer != nil {
			prompt += s.answer.Usage.PromptTokens
		}
	}
	if n := c.p.metric(t, "kvferry_forward_pass_seconds_count"); n != passes {
		t.Errorf("prefill ran %v passes, and %v more for what it had computed", passes, n-passes)
	}
	if n := c.p.metric(t, promptTokens); n != float64(prompt) {
		t.Errorf("prefill computed %v tokens of prompts that have %d", n, prompt)
	}
	if n := c.router.metric(t, "kvferry_router_retries_total", `policy="same_handle"`, `leg="decode"`); n != float64(victim) {
		t.Errorf("%v handles were given to another engine, and %d were in the dead one's queue", n, victim)
	}
	if n := c.d[1].metric(t, pulls); n != requests {
		t.Errorf("the second engine read %v prompts of %d", n, requests)
	}
	if n := c.p.metric(t, expiredLeases); n != 0 {
		t.Errorf("%v leases expired", n)
	}
	baseline(t, c.p, c.d[1])
}

// waiting is how many requests wait behind those that occupy an engine.
func waiting(t *testing.T, d *part) int {
	t.Helper()
	s := d.state(t)
	return s.Requests.Running + s.Requests.Waiting - occupants
}
