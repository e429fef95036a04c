//go:build linux

package main_test

import (
	"strings"
	"testing"
	"time"

	"kvferry/agent/fault"
	"kvferry/engine"
	"kvferry/node/e2etest"
)

const (
	faultyTimeout = 1500 * time.Millisecond
	faultyRate    = 16 << 20 // bytes a second
	faultyDelay   = 10 * time.Millisecond
)

// faultyCrossing is a crossing whose engines have a bad link.
type faultyCrossing struct {
	crossing
	p, d *faultyProcess
}

// TestFaultsAcrossHosts runs prefill and decode on hosts of their own behind links that are slow
// and have a delay, and whose connections are reset from either side while slices are in flight, by
// the kernel or by the agent. Each request ends with the aggregated run's tokens or with a clear
// error, then both sides are at their baseline, and the next request is served.
//
// req: PIPE-29
func TestFaultsAcrossHosts(t *testing.T) {
	onHosts(t, func(t *testing.T, on crossing) {
		c := faultyHosts(t, on)
		t.Run("a rate and a delay", c.slowAndLate)
		t.Run("reset", c.resets)
		t.Run("reset by the kernel", c.kernelResets)
		t.Run("reset at any time", c.anyTime)
	})
}

// TestStallsAcrossHosts is the same with links that stall for a while, or for longer than anybody
// waits.
//
// req: PIPE-29
func TestStallsAcrossHosts(t *testing.T) {
	onHosts(t, func(t *testing.T, on crossing) {
		c := faultyHosts(t, on)
		t.Run("for a while", c.shortStalls)
		t.Run("for long", c.longStalls)
	})
}

func faultyHosts(t *testing.T, on crossing) faultyCrossing {
	link := badLink{Timeout: faultyTimeout, Rate: faultyRate, Delay: faultyDelay}
	p, d := link, link
	p.Role, p.Listen, p.AgentListen = engine.Prefill, prefillHTTP, prefillAgent
	d.Role, d.Listen, d.AgentListen = engine.Decode, decodeHTTP, decodeAgent
	c := faultyCrossing{on, beginFaulty(t, on.prefillHost, p), beginFaulty(t, on.decodeHost, d)}
	c.route(t, c.p.process, c.d.process)
	return c
}

// slowAndLate: a request takes as long as its bytes at the rate, and the delay of each slice, and
// is right.
func (c faultyCrossing) slowAndLate(t *testing.T) {
	for i := range 2 {
		slices, bytes := c.landed(t), c.received(t)
		began, r := time.Now(), letter(i)
		o := <-c.ask(t, r)
		took := time.Since(began)
		c.served(t, r, o)
		slices, bytes = c.landed(t)-slices, c.received(t)-bytes
		least := time.Duration(slices)*faultyDelay + time.Duration(float64(bytes)/faultyRate*float64(time.Second))
		if slices < 10 || bytes == 0 || took < least {
			t.Errorf("%d slices of %d bytes took %s, want %s or more", slices, bytes, took, least)
		}
		t.Logf("%d slices of %d bytes took %s, at least %s", slices, bytes, took, least)
	}
	c.idle(t)
}

func (c faultyCrossing) received(t *testing.T) int {
	t.Helper()
	return c.count(t, `kvferry_transfer_bytes_total{direction="in"`)
}

// served checks that a request ended with the right answer.
func (c faultyCrossing) served(t *testing.T, r e2etest.Request, o outcome) {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	c.right(t, r, o.answer)
}

// over checks how a request ended that something befell, and that nothing is left of it.
func (c faultyCrossing) over(t *testing.T, r e2etest.Request, o outcome) {
	t.Helper()
	c.rightOrClear(t, r, o)
	c.idle(t)
	c.recovers(t, r)
}

// resets drops the connections at a certain operation of either engine, and, from either side,
// when some slices have landed.
func (c faultyCrossing) resets(t *testing.T) {
	for i, tc := range []struct {
		by   *faultyProcess
		kind fault.Kind
		nth  int
	}{
		{c.p, fault.Write, 1},
		{c.p, fault.Write, 5},
		{c.p, fault.Write, 17}, // the last
		{c.d, fault.Notify, 1}, // the registration
	} {
		r, before := letter(200+i), tc.by.said(struck)
		tc.by.tell(t, command{Kind: tc.kind, Nth: tc.nth, Action: fault.Action{Drop: true}})
		o := <-c.ask(t, r)
		if tc.by.said(struck) != before+1 {
			t.Errorf("%s %d was not hit", tc.kind, tc.nth)
		}
		c.over(t, r, o)
	}
	for i, by := range []*faultyProcess{c.p, c.d} {
		r := letter(210 + i)
		ended := c.inFlight(t, r)
		by.tell(t, command{Now: "drop"})
		c.over(t, r, <-ended)
	}
}

// kernelResets has the kernel of either host destroy the sockets of the link for KV, which resets
// them for the other.
func (c faultyCrossing) kernelResets(t *testing.T) {
	for i, host := range []string{c.prefillHost, c.decodeHost} {
		r := letter(220 + i)
		ended := c.inFlight(t, r)
		out, err := on(host, "ss", "-K", "-H", "-t", "state", "established", "dst", "10.77.0.0/30").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "10.77.0.") {
			<-ended
			t.Skipf("this kernel does not destroy sockets: %v: %s", err, out)
		}
		c.over(t, r, <-ended)
	}
}

// shortStalls holds a slice, and a registration with all that is said behind it, for less than the
// time-out: the request is late, and right.
func (c faultyCrossing) shortStalls(t *testing.T) {
	const stall = faultyTimeout / 2
	for i, tc := range []struct {
		by   *faultyProcess
		kind fault.Kind
		nth  int
	}{{c.p, fault.Write, 4}, {c.d, fault.Notify, 1}} {
		r, began := letter(230+i), time.Now()
		tc.by.tell(t, command{Kind: tc.kind, Nth: tc.nth, Action: fault.Action{Delay: stall}})
		o := <-c.ask(t, r)
		if took := time.Since(began); took < stall {
			t.Errorf("it took %s with a stall of %s", took, stall)
		}
		c.served(t, r, o)
		c.idle(t)
		c.recovers(t, r)
	}
}

// longStalls lets nothing more out of an engine, before a request and in the midst of its slices.
// It is given up, and both engines are at their baseline before anything moves again.
func (c faultyCrossing) longStalls(t *testing.T) {
	for i, by := range []*faultyProcess{c.p, c.d} {
		for _, midst := range []bool{false, true} {
			r := letter(240 + 2*i)
			ended := (<-chan outcome)(nil)
			if midst {
				ended = c.inFlight(t, r)
			}
			by.tell(t, command{Now: "stall"})
			if !midst {
				ended = c.ask(t, r)
			}
			o := <-ended
			if o.err == nil && !(midst && by == c.d) {
				t.Error("the request ended well over a link that is stalled")
			}
			c.rightOrClear(t, r, o)
			c.idle(t)
			by.tell(t, command{Now: "resume"})
			c.recovers(t, r)
		}
	}
}

// anyTime drops the connections again and again while clients ask.
func (c faultyCrossing) anyTime(t *testing.T) {
	const clients, each = 3, 4
	type ending struct {
		r e2etest.Request
		outcome
	}
	odds := command{Odds: &fault.Odds{Drop: 0.04, Delay: 5 * time.Millisecond}, Seed: 29}
	before := c.p.said(struck) + c.d.said(struck)
	c.p.tell(t, odds)
	c.d.tell(t, odds)
	ended := make(chan ending)
	for client := range clients {
		go func() {
			for n := range each {
				r := letter((client + n) % 2)
				ended <- ending{r, <-c.ask(t, r)}
			}
		}()
	}
	served := 0
	for range clients * each {
		e := <-ended
		c.rightOrClear(t, e.r, e.outcome)
		if e.err == nil {
			served++
		}
	}
	if c.p.said(struck)+c.d.said(struck) == before || served == clients*each {
		t.Error("nothing befell any of them")
	}
	t.Logf("%d of %d are served", served, clients*each)
	c.p.tell(t, command{})
	c.d.tell(t, command{})
	c.idle(t)
	c.recovers(t, letter(0))
}
