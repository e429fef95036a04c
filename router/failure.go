package router

import (
	"fmt"

	"kvferry/openai"
)

// HTTP statuses that mean something to the core, which does without net/http.
const (
	badGateway  = 502
	unavailable = 503
)

// Failure is how a leg ended that did not succeed: the engine answered with an error, or the
// connection failed.
type Failure struct {
	// Lost says that the connection could not be made, or broke.
	Lost bool
	// Answer is the engine's error; nil if Lost.
	Answer *openai.Error
	// Cause is why the connection failed, for the log; nil if the engine answered.
	Cause error
}

func (f Failure) String() string {
	if f.Lost {
		return fmt.Sprintf("connection lost: %v", f.Cause)
	}
	return f.Answer.Error()
}

// refused says that the engine found fault with the request itself.
func (f Failure) refused() bool {
	return !f.Lost && f.Answer.Status >= 400 && f.Answer.Status < 500
}

// secondhand says that the failure may be the echo of the other engine's, which then is the
// better one to tell. An engine that is gone or has no room (503) speaks of itself.
func (f Failure) secondhand() bool {
	return !f.Lost && f.Answer.Status >= 500 && f.Answer.Status != unavailable
}

// answer is what the client is told of an engine's failure: what is wrong with the request as
// the engine said it, all else with whose fault it was. Addresses are for the log alone.
// case: 08, 11
func (f Failure) answer(role Role) *openai.Error {
	switch {
	case f.Lost:
		return openai.Upstream(badGateway, "the connection to the %s engine was lost", role)
	case f.refused():
		return f.Answer
	case f.Answer.Status == unavailable:
		return openai.Overloaded(unavailable, "%s engine: %s", role, f.Answer.Message)
	}
	return openai.Upstream(f.Answer.Status, "%s engine: %s", role, f.Answer.Message)
}

// noEngine is the answer when no engine of a role can be chosen.
func noEngine(role Role) *openai.Error {
	return openai.Overloaded(unavailable, "no %s engine is ready", role)
}
