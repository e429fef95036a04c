package router

import (
	"encoding/json"

	"kvferry/openai"
)

// Output is what the shell must now do: one of the types below.
type Output interface{ output() }

// Part is what an engine is told of its part in a request: by at most one of the two, and by
// neither that the whole request is its own.
type Part struct {
	Disagg *openai.Disagg
	KV     json.RawMessage
}

// Body is a client's body with the part in it. All else keeps its bytes. // case: 16
func (p Part) Body(body []byte) ([]byte, error) {
	switch {
	case p.Disagg != nil:
		return openai.WithDisagg(body, *p.Disagg)
	case p.KV != nil:
		return openai.WithKVTransfer(body, p.KV)
	}
	return body, nil
}

// StartPrefill posts the request to a prefill engine. One prefill leg runs at a time.
type StartPrefill struct {
	Engine Engine
	Try    int
	Part   Part
}

// StartDecode posts the request to a decode engine. One decode leg runs at a time.
type StartDecode struct {
	Engine Engine
	Try    int
	Part   Part
}

// CancelPrefill closes the prefill leg's request, which tells the engine to give up.
type CancelPrefill struct{}

// CancelDecode closes the decode leg's request.
type CancelDecode struct{}

// Forward passes the decode engine's status, headers and body on to the client.
type Forward struct{}

// LegFailed says that a leg failed by itself (not because it was cancelled), for the log and
// the counters. If the failure is Lost, the engine is not to be chosen until a poll says
// otherwise.
type LegFailed struct {
	Engine  Engine
	Failure Failure
}

// Retry says that something else is tried after a leg's failure, for the log and the counters.
type Retry struct {
	Leg Role
	// How is PolicyOther or PolicyLocal after a prefill leg, and SameHandle after a decode leg.
	How string
}

// SameHandle is how a failed decode leg is retried: on another engine, with what prefill
// computed once.
const SameHandle = "same_handle"

// GiveUp says why nothing more is tried after a leg's failure, for the log and the counters.
type GiveUp struct {
	Leg Role
	Why Why
}

// Why is why a leg's failure is the request's.
type Why string

// The reasons.
const (
	// WhyRefused: the engine found fault with the request itself.
	WhyRefused Why = "refused"
	// WhyPolicy: the policy is PolicyFail.
	WhyPolicy Why = "policy"
	// WhyTries: enough engines were tried.
	WhyTries Why = "tries"
	// WhyNoEngine: no other engine is ready.
	WhyNoEngine Why = "no_engine"
	// WhyLocalCap: decode engines compute as many prompts as they may.
	WhyLocalCap Why = "local_cap"
	// WhyPrefill: prefill would have to be repeated.
	WhyPrefill Why = "prefill_would_repeat"
	// WhyLocal: the whole request was the decode engine's.
	WhyLocal Why = "local"
)

// Release tells a prefill engine that nobody will read what it holds. // case: 06
type Release struct {
	Engine Engine
	Handle json.RawMessage
}

// Fail answers the client with an error; nothing has been sent to it yet. It is the last output.
type Fail struct{ Err *openai.Error }

// Break ends an answer whose headers were passed on already. It is the last output.
type Break struct{ Err *openai.Error }

// Finish ends an answer that is complete. Timing is nil if the prefill engine gave none. It is
// the last output.
type Finish struct{ Timing *Timing }

// Leave ends an attempt whose client is gone: there is nobody to answer. It is the last output.
type Leave struct{}

func (StartPrefill) output()  {}
func (StartDecode) output()   {}
func (CancelPrefill) output() {}
func (CancelDecode) output()  {}
func (Forward) output()       {}
func (LegFailed) output()     {}
func (Retry) output()         {}
func (GiveUp) output()        {}
func (Release) output()       {}
func (Fail) output()          {}
func (Break) output()         {}
func (Finish) output()        {}
func (Leave) output()         {}
