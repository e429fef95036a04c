package proxy

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"kvferry/router"
)

// exchange is one client's request while it runs: an attempt, its two legs, and the answer.
type exchange struct {
	r       *Router
	req     *http.Request
	path    string
	body    []byte
	id      string
	began   time.Time
	attempt *router.Attempt
	pair    router.Pair
	answer  *answer

	// events has room for all that the legs have to say, so that none waits for a reader.
	events  chan router.Event
	forward chan struct{}
	legs    sync.WaitGroup

	cancelPrefill, cancelDecode context.CancelFunc
}

// run feeds the attempt until its last output. The legs are done when it returns.
func (x *exchange) run() {
	x.events = make(chan router.Event, 4)
	x.forward = make(chan struct{})
	// Both contexts are the request's children: a client's hang-up ends the legs even while
	// nobody reads events.
	ctx := x.req.Context()
	prefill, cancelPrefill := context.WithCancel(ctx)
	decode, cancelDecode := context.WithCancel(ctx)
	x.cancelPrefill, x.cancelDecode = cancelPrefill, cancelDecode
	defer cancelPrefill()
	defer cancelDecode()

	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		for _, out := range x.attempt.Outputs() {
			if !x.start(prefill, decode, out) {
				x.end(out)
				return
			}
		}
		timer.Reset(time.Duration(x.attempt.Deadline() - x.now()))
		select {
		case ev := <-x.events:
			x.step(ev)
		case <-ctx.Done():
			x.step(router.ClientGone{})
		case <-timer.C:
			x.attempt.Tick(x.now())
		}
	}
}

// now is the attempt's clock: ns since the request came.
func (x *exchange) now() int64 { return time.Since(x.began).Nanoseconds() }

func (x *exchange) step(ev router.Event) {
	if err := x.attempt.Step(x.now(), ev); err != nil {
		x.r.log.Error("event out of order", "id", x.id, "err", err)
	}
}

// start does an output that is not the last, and says whether out is one.
func (x *exchange) start(prefill, decode context.Context, out router.Output) bool {
	switch out := out.(type) {
	case router.StartPrefill:
		x.legs.Go(func() { x.prefill(prefill, out) })
	case router.StartDecode:
		x.legs.Go(func() { x.decode(decode, out) })
	case router.CancelPrefill:
		x.cancelPrefill()
	case router.CancelDecode:
		x.cancelDecode()
	case router.Forward:
		close(x.forward)
	case router.LegFailed:
		x.legFailed(out)
	default:
		return false
	}
	return true
}

// end does the last output. Legs that ran were cancelled before it, and are waited for, since
// the client's writer must not be used after this request.
func (x *exchange) end(out router.Output) {
	if _, gone := out.(router.Leave); gone {
		// A write to a client that neither reads nor closes would not end by itself.
		_ = http.NewResponseController(x.answer.w).SetWriteDeadline(time.Now())
	}
	x.legs.Wait()
	how, cut := outcomeOK, false
	switch out := out.(type) {
	case router.Finish:
		x.answer.finish(out.Timing)
	case router.Fail:
		how = outcomeFailed
		x.answer.fail(out.Err)
	case router.Break:
		how = outcomeBroken
		cut = x.answer.breakOff(out.Err)
	case router.Leave:
		how, x.answer.status = outcomeGone, statusGone
	}
	x.r.metrics.ended(how, x.answer.status)
	x.r.log.Info("request ended", "id", x.id, "path", x.path, "outcome", how, "status", x.answer.status,
		"prefill", x.pair.Prefill.URL, "decode", x.pair.Decode.URL, "seconds", time.Since(x.began).Seconds())
	if cut {
		panic(http.ErrAbortHandler)
	}
}

func (x *exchange) legFailed(out router.LegFailed) {
	e := out.Engine
	x.r.metrics.legFailures.WithLabelValues(e.Role.String()).Inc()
	x.r.log.Warn("leg failed", "id", x.id, "role", e.Role, "url", e.URL, "why", out.Failure.String())
	if out.Failure.Lost {
		x.r.lost(e, out.Failure.Cause)
	}
}
