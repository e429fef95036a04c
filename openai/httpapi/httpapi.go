// Package httpapi is what every HTTP server of the API does alike: methods, bodies
// and errors in the API's form. It is openai's edge leaf.
package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"kvferry/openai"
)

// MaxBody is the longest request body, in bytes.
const MaxBody = 8 << 20

// Headers of a deployment's own traffic, but for the first none of a client's.
const (
	// HeaderRequestID carries a request's ID, the same on both legs.
	HeaderRequestID = "X-Request-Id"
	// HeaderAttempt counts, from 1, what a router has tried for a request: of two that claim
	// one handle, the higher attempt owns it.
	HeaderAttempt = "X-Kvferry-Attempt"
	// HeaderLeg names a prefill leg whose KV is to be read, by what no other leg has: until the
	// handle has come it is by this that the router can say that nobody will read it.
	HeaderLeg = "X-Kvferry-Leg"
	// HeaderToken carries the deployment's token.
	HeaderToken = "X-Kvferry-Token"
	// TrailerTurn follows a decode engine's answer: kv_transfer_params of the turn that ended,
	// as compact JSON of at most MaxTurn bytes.
	TrailerTurn = "X-Kvferry-Kv-Transfer"
)

// MaxTurn is the longest TrailerTurn, in bytes. A router reads a trailer only if it fits its
// buffer, and takes a longer one for a broken answer.
const MaxTurn = 48 << 10

// PathRelease is where a prefill engine is told, by POST of the handle, that nobody will read
// the KV that it holds. A handle that did not come is named by its remote_request_id alone, which
// is the leg's HeaderLeg.
const PathRelease = "/v1/leases/release"

// Only serves one method, and HEAD with GET; others get 405.
func Only(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
			next(w, r)
			return
		}
		w.Header().Set("Allow", method)
		WriteError(w, &openai.Error{
			Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalidRequest,
			Message: "this path takes " + method + " only",
		})
	}
}

// NotFound answers for paths where nothing is served.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	WriteError(w, &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeNotFound, Message: "there is nothing at this path",
	})
}

// WriteError answers with an error. A client that left needs no answer, so writing cannot fail.
func WriteError(w http.ResponseWriter, err *openai.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(err.Status)
	_, _ = w.Write(err.Body())
}

// WriteJSON answers with a value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// ReadBody reads a request's body to its end.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, *openai.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, openai.BodyTooLarge(MaxBody)
	}
	if err != nil {
		return nil, openai.BadRequest("", "the body broke off: %v", err)
	}
	return body, nil
}
