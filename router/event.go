package router

import "encoding/json"

// Event is what happened to an attempt: one of the types below. Those of a leg name the try
// that the leg was started under; what is told of an earlier try is not heard.
type Event interface{ event() }

// PrefillDone is the prefill engine's reply. Timing is nil if it gave none. Handle is
// kv_transfer_params, opaque here; nil if it gave none.
type PrefillDone struct {
	Try    int
	Timing *Timing
	Handle json.RawMessage
}

// PrefillFailed ends the prefill leg without a reply.
type PrefillFailed struct {
	Try     int
	Failure Failure
}

// DecodeHeaders says that the decode engine answers with success: it has its first token.
type DecodeHeaders struct{ Try int }

// DecodeDone says that the decode engine's answer was passed on to its end.
type DecodeDone struct{ Try int }

// DecodeFailed ends the decode leg with an error, before its headers or after.
type DecodeFailed struct {
	Try     int
	Failure Failure
}

// ClientGone says that nobody waits for the answer any more.
type ClientGone struct{}

func (PrefillDone) event()   {}
func (PrefillFailed) event() {}
func (DecodeHeaders) event() {}
func (DecodeDone) event()    {}
func (DecodeFailed) event()  {}
func (ClientGone) event()    {}

// Timing is where a request's time went on its prefill engine, in seconds.
type Timing struct {
	Prefill float64
	// Hidden is the part of the transfer that ran beside the computation, Exposed the part
	// that the client waited for. // PIPE-27
	Hidden  float64
	Exposed float64
}
