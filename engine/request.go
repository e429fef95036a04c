package engine

import (
	"errors"
	"fmt"
)

// Role is what an engine is in its deployment.
type Role uint8

// The roles. Each serves aggregated requests too (PIPE-25).
const (
	Aggregated Role = iota
	Prefill
	Decode
)

func (r Role) String() string {
	switch r {
	case Prefill:
		return "prefill"
	case Decode:
		return "decode"
	}
	return "aggregated"
}

// Leg is an engine's part in a request.
type Leg uint8

// The legs of a request.
const (
	Whole      Leg = iota // prefill and decode here
	PrefillLeg            // prefill here, for the engine that registers
	DecodeLeg             // decode here, of KV that the engine at Peer sends
)

// Request is what an engine is asked to do. Its slices are not changed after Submit.
type Request struct {
	// ID names the request on every engine that takes part; it is never used twice.
	ID  string
	Leg Leg
	// Peer is where a DecodeLeg's prefill engine listens for transfers.
	Peer string
	// Hold: what a PrefillLeg computes is not sent, but held under a lease for whoever has the
	// handle that Finish gives.
	Hold bool
	// Pull, if set, is where the KV of the prompt's beginning is to be read from: for a
	// DecodeLeg, in place of Peer, that of the whole prompt; for a PrefillLeg that of an earlier
	// turn.
	Pull *Handle
	// Attempt counts the router's attempts at the request; the newest owns its lease.
	Attempt uint32
	// Tokens is the prompt, at least one token.
	Tokens []int32
	// MaxTokens bounds the output; the model's context bounds it too.
	MaxTokens int
	// IgnoreEOS: a token that ends an answer does not end this one.
	IgnoreEOS bool
	// Stop are strings that end the answer and are not part of it.
	Stop     []string
	Sampling Sampling
	// Logprobs is the number of alternatives wanted with each token, -1 for none of it.
	Logprobs int
}

// The causes for which a request is refused on arrival.
var (
	ErrOverloaded = errors.New("too many requests are waiting")
	ErrDuplicate  = errors.New("a request with this ID is here already")
	ErrRole       = errors.New("this engine does not play that role")
	ErrEmpty      = errors.New("the prompt is empty")
)

// TooLongError refuses a prompt that the engine could never serve.
type TooLongError struct {
	Tokens, Limit int
	// Why names the limit: the model's context, or a pool.
	Why string
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the prompt has %d tokens and the limit is %d (%s)", e.Tokens, e.Limit, e.Why)
}

// FinishReason is why an answer ended well.
type FinishReason string

// The reasons, in OpenAI's words.
const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
)
