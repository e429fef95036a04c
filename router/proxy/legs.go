package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/router"
)

// maxReply is how much is read of an engine's error, in bytes.
const maxReply = 1 << 20

// replyTimeout is how long a prefill engine may take from the beginning of a reply with a
// handle to its end.
const replyTimeout = 10 * time.Second

// prefillReply is what a prefill engine answers once its transfer is done.
type prefillReply struct {
	Kvferry *struct {
		Prefill float64 `json:"prefill_seconds"`
		Hidden  float64 `json:"hidden_seconds"`
		Exposed float64 `json:"exposed_seconds"`
	} `json:"kvferry"`
}

// prefill runs the prefill leg to its end.
func (x *exchange) prefill(ctx context.Context, start router.StartPrefill) {
	done, f := x.runPrefill(ctx, start)
	if f != nil {
		x.report(ctx, router.PrefillFailed{Try: start.Try, Failure: *f})
		return
	}
	done.Try = start.Try
	if !x.report(ctx, done) && done.Handle != nil {
		// The client left while the reply came: nobody will take what the engine holds.
		x.r.release(router.Release{Engine: start.Engine, Handle: done.Handle})
	}
}

func (x *exchange) runPrefill(ctx context.Context, start router.StartPrefill) (done router.PrefillDone, _ *router.Failure) {
	// A request that is given up is cut until the reply begins. What there is of a reply then
	// is read, since it may have a handle to be released.
	leg, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	replied := context.AfterFunc(ctx, cut)
	name := ""
	if start.Part.KV != nil {
		name = mintID()
		defer func() {
			if done.Handle == nil && ctx.Err() != nil {
				// The handle may have been on its way when the leg was cut.
				x.r.release(withdrawal(start.Engine, name))
			}
		}()
	}
	resp, f := x.post(leg, start.Engine, start.Try, start.Part, name)
	if f != nil {
		return done, f
	}
	defer resp.Body.Close()
	if start.Part.KV != nil && replied() {
		late := time.AfterFunc(replyTimeout, cut)
		defer late.Stop()
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, httpapi.MaxBody))
	if err != nil {
		return done, lost(err)
	}
	var reply prefillReply
	if err := json.Unmarshal(text, &reply); err != nil {
		return done, answered(openai.Upstream(http.StatusBadGateway, "the reply is not JSON: %v", err))
	}
	if k := reply.Kvferry; k != nil {
		done.Timing = &router.Timing{Prefill: k.Prefill, Hidden: k.Hidden, Exposed: k.Exposed}
	}
	if start.Part.KV != nil {
		if done.Handle, err = openai.KVTransferOf(text); err != nil {
			return done, answered(openai.Upstream(http.StatusBadGateway, "the reply has no fit handle: %v", err))
		}
	}
	return done, nil
}

// withdrawal tells an engine to let go of what it computes, or holds, for a leg that was cut.
func withdrawal(e router.Engine, leg string) router.Release {
	return router.Release{Engine: e, Handle: fmt.Appendf(nil, `{"do_remote_decode":true,"remote_request_id":%q}`, leg)}
}

// decode runs the decode leg to its end.
func (x *exchange) decode(ctx context.Context, start router.StartDecode, forward <-chan struct{}) {
	resp, f := x.post(ctx, start.Engine, start.Try, start.Part, "")
	if f != nil {
		x.report(ctx, router.DecodeFailed{Try: start.Try, Failure: *f})
		return
	}
	defer resp.Body.Close()
	x.report(ctx, router.DecodeHeaders{Try: start.Try})
	select {
	case <-forward:
	case <-ctx.Done():
		return
	}
	err := x.answer.copy(resp)
	if err == nil {
		x.turn = json.RawMessage(resp.Trailer.Get(httpapi.TrailerTurn))
		x.answer.readTiming = resp.Trailer.Get(trailerTiming)
	}
	x.report(ctx, copied(start.Try, err))
}

// copied is how a decode leg ended whose answer was passed on until err.
func copied(try int, err error) router.Event {
	switch {
	case err == nil:
		return router.DecodeDone{Try: try}
	case errors.Is(err, errClient):
		return router.ClientGone{}
	case errors.Is(err, openai.ErrEventTooLong):
		return router.DecodeFailed{Try: try, Failure: *answered(openai.Upstream(http.StatusBadGateway, "%v", err))}
	}
	return router.DecodeFailed{Try: try, Failure: *lost(err)}
}

// report tells the exchange of a leg's event, unless the leg was cancelled: what happens to it
// then is our own doing, and says nothing of the engine. It says whether the event was told.
func (x *exchange) report(ctx context.Context, ev router.Event) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case x.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}

// post sends the client's body to an engine, with the router's word on what its part is, and
// gives the answer if it is a success. The leg's name is empty for one that nobody withdraws. Of
// the client's headers none is passed on.
func (x *exchange) post(ctx context.Context, e router.Engine, try int, part router.Part, leg string) (*http.Response, *router.Failure) {
	body, err := part.Body(x.body)
	if bad, ok := errors.AsType[*openai.Error](err); ok {
		return nil, answered(bad)
	}
	if err != nil {
		return nil, answered(openai.Internal("the request cannot be handed on: %v", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+x.path, bytes.NewReader(body))
	if err != nil {
		return nil, lost(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(httpapi.HeaderRequestID, x.id)
	req.Header.Set(httpapi.HeaderAttempt, strconv.Itoa(try))
	if leg != "" {
		req.Header.Set(httpapi.HeaderLeg, leg)
	}
	x.r.sign(req)
	resp, err := x.r.client.Do(req)
	if err != nil {
		return nil, lost(bare(err))
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, lost(fmt.Errorf("status %d and then: %w", resp.StatusCode, err))
	}
	return nil, answered(openai.DecodeError(resp.StatusCode, text))
}

func lost(cause error) *router.Failure { return &router.Failure{Lost: true, Cause: cause} }

func answered(err *openai.Error) *router.Failure { return &router.Failure{Answer: err} }

// bare takes the method and URL off a client's error: they are in the log line already.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
