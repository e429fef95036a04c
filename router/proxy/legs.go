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

	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/router"
)

// maxReply is how much is read of an engine's error, or of a prefill engine's reply, in bytes.
const maxReply = 1 << 20

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
	timing, f := x.runPrefill(ctx, start)
	if f != nil {
		x.report(ctx, router.PrefillFailed{Failure: *f})
		return
	}
	x.report(ctx, router.PrefillDone{Timing: timing})
}

func (x *exchange) runPrefill(ctx context.Context, start router.StartPrefill) (*router.Timing, *router.Failure) {
	resp, f := x.post(ctx, start.Engine, start.Disagg)
	if f != nil {
		return nil, f
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, lost(err)
	}
	var reply prefillReply
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, answered(openai.Upstream(http.StatusBadGateway, "the reply is not JSON: %v", err))
	}
	if k := reply.Kvferry; k != nil {
		return &router.Timing{Prefill: k.Prefill, Hidden: k.Hidden, Exposed: k.Exposed}, nil
	}
	return nil, nil
}

// decode runs the decode leg to its end.
func (x *exchange) decode(ctx context.Context, start router.StartDecode) {
	resp, f := x.post(ctx, start.Engine, start.Disagg)
	if f != nil {
		x.report(ctx, router.DecodeFailed{Failure: *f})
		return
	}
	defer resp.Body.Close()
	x.report(ctx, router.DecodeHeaders{})
	select {
	case <-x.forward:
	case <-ctx.Done():
		return
	}
	x.report(ctx, copied(x.answer.copy(resp)))
}

// copied is how a decode leg ended whose answer was passed on until err.
func copied(err error) router.Event {
	switch {
	case err == nil:
		return router.DecodeDone{}
	case errors.Is(err, errClient):
		return router.ClientGone{}
	case errors.Is(err, openai.ErrEventTooLong):
		return router.DecodeFailed{Failure: *answered(openai.Upstream(http.StatusBadGateway, "%v", err))}
	}
	return router.DecodeFailed{Failure: *lost(err)}
}

// report tells the exchange of a leg's event, unless the leg was cancelled: what happens to it
// then is our own doing, and says nothing of the engine.
func (x *exchange) report(ctx context.Context, ev router.Event) {
	if ctx.Err() == nil {
		x.events <- ev
	}
}

// post sends the client's body to an engine, with the router's word on what its part is, and
// gives the answer if it is a success. Of the client's headers none is passed on.
func (x *exchange) post(ctx context.Context, e router.Engine, d openai.Disagg) (*http.Response, *router.Failure) {
	body, err := openai.WithDisagg(x.body, d)
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
