package proxy

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"kvferry/router"
)

// exchange is one client's request while it runs: an attempt, its legs, and the answer.
type exchange struct {
	r       *Router
	req     *http.Request
	path    string
	body    []byte
	model   string
	talk    router.Conversation
	id      string
	began   time.Time
	attempt *router.Attempt
	// pair is who was asked last.
	pair   router.Pair
	answer *answer
	// turn is the handle that followed the decode engine's answer.
	turn json.RawMessage
	// local says that it has one of the places for requests that a decode engine has to itself.
	local bool

	events chan router.Event
	legs   sync.WaitGroup
	// forward is closed when the decode leg that runs may pass its answer on.
	forward                     chan struct{}
	cancelPrefill, cancelDecode context.CancelFunc
}

// run feeds the attempt until its last output. The legs are done when it returns.
func (x *exchange) run(start router.Start) {
	// The legs' contexts are the request's children: a client's hang-up ends them even while
	// nobody reads events.
	ctx, cancel := context.WithCancel(x.req.Context())
	defer cancel()
	x.events = make(chan router.Event)
	x.pair = start.Pair
	x.attempt = router.NewAttempt(x.r.cfg.Config, start, x)

	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		for _, out := range x.attempt.Outputs() {
			if !x.start(ctx, out) {
				cancel()
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
func (x *exchange) start(ctx context.Context, out router.Output) bool {
	switch out := out.(type) {
	case router.StartPrefill:
		x.startPrefill(ctx, out)
	case router.StartDecode:
		x.startDecode(ctx, out)
	case router.CancelPrefill:
		x.cancelPrefill()
	case router.CancelDecode:
		x.cancelDecode()
	case router.Forward:
		close(x.forward)
	case router.LegFailed:
		x.legFailed(out)
	case router.Retry:
		x.r.metrics.retries.WithLabelValues(out.Leg.String(), out.How).Inc()
		x.r.log.Info("request is retried", "id", x.id, "leg", out.Leg, "how", out.How)
	case router.GiveUp:
		x.r.metrics.givenUp.WithLabelValues(out.Leg.String(), string(out.Why)).Inc()
	case router.Release:
		x.r.release(out)
	default:
		return false
	}
	return true
}

func (x *exchange) startPrefill(ctx context.Context, out router.StartPrefill) {
	ctx, x.cancelPrefill = context.WithCancel(ctx)
	x.pair.Prefill = out.Engine
	x.legs.Go(func() { x.prefill(ctx, out) })
}

func (x *exchange) startDecode(ctx context.Context, out router.StartDecode) {
	ctx, x.cancelDecode = context.WithCancel(ctx)
	x.pair.Decode = out.Engine
	forward := make(chan struct{})
	x.forward = forward
	x.legs.Go(func() { x.decode(ctx, out, forward) })
}

// Other is router.Engines's.
func (x *exchange) Other(role router.Role, not []int) (router.Engine, bool) {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	return x.r.pool.Other(role, x.model, not)
}

// Local is router.Engines's.
func (x *exchange) Local() bool {
	x.local = x.local || x.r.takeLocal()
	return x.local
}

// end does the last output. Legs that ran were cancelled before it, and are waited for, since
// the client's writer must not be used after this request.
func (x *exchange) end(out router.Output) {
	if _, gone := out.(router.Leave); gone {
		// A write to a client that neither reads nor closes would not end by itself.
		_ = http.NewResponseController(x.answer.w).SetWriteDeadline(time.Now())
	}
	x.legs.Wait()
	if x.local {
		x.r.giveLocal()
	}
	how, cut := outcomeOK, false
	switch out := out.(type) {
	case router.Finish:
		x.answer.finish(out.Timing)
		x.r.remember(x.talk, x.pair.Decode, x.turn)
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
