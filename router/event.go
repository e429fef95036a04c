package router

import "kvferry/openai"

// Event is what happened to an attempt: one of the types below.
type Event interface{ event() }

// PrefillDone is the prefill engine's reply: its transfer is done. Timing is nil if it gave none.
type PrefillDone struct{ Timing *Timing }

// PrefillFailed ends the prefill leg without a reply.
type PrefillFailed struct{ Failure Failure }

// DecodeHeaders says that the decode engine answers with success: it has its first token.
type DecodeHeaders struct{}

// DecodeDone says that the decode engine's answer was passed on to its end.
type DecodeDone struct{}

// DecodeFailed ends the decode leg with an error, before its headers or after.
type DecodeFailed struct{ Failure Failure }

// ClientGone says that nobody waits for the answer any more.
type ClientGone struct{}

func (PrefillDone) event()   {}
func (PrefillFailed) event() {}
func (DecodeHeaders) event() {}
func (DecodeDone) event()    {}
func (DecodeFailed) event()  {}
func (ClientGone) event()    {}

// Output is what the shell must do now: one of the types below.
type Output interface{ output() }

// StartPrefill posts the request to the prefill engine. It comes once in an attempt's life.
type StartPrefill struct {
	Engine Engine
	Disagg openai.Disagg
}

// StartDecode posts the request to the decode engine. It comes once in an attempt's life.
type StartDecode struct {
	Engine Engine
	Disagg openai.Disagg
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
func (Fail) output()          {}
func (Break) output()         {}
func (Finish) output()        {}
func (Leave) output()         {}

// Timing is where a request's time went on its prefill engine, in seconds.
type Timing struct {
	Prefill float64
	// Hidden is the part of the transfer that ran beside the computation, Exposed the part
	// that the client waited for. // PIPE-27
	Hidden  float64
	Exposed float64
}
