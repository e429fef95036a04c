package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"kvferry/openai"
)

// Failure is why a request has no whole answer.
type Failure struct {
	// Kind is the same for all of a kind, Message says more of this one.
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Clear: the server said that it failed, with a status or an event and a reason. Otherwise
	// the answer broke off, never came, or cannot be read.
	Clear bool `json:"clear"`
	// given: the one who asked gave up.
	given bool
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// refused is an answer with another status than 200.
func refused(status int, body []byte) *Failure {
	e := openai.DecodeError(status, body)
	f := &Failure{Kind: fmt.Sprintf("status %d %s", status, name(e)), Message: e.Message, Clear: status >= 400}
	if len(body) == 0 {
		f.Kind, f.Clear = fmt.Sprintf("status %d without a reason", status), false
	}
	return f
}

// streamed is an error that came as an event.
func streamed(e *openai.Error) *Failure {
	return &Failure{Kind: "stream error " + name(e), Message: e.Message, Clear: true}
}

func name(e *openai.Error) string {
	if e.Code != "" {
		return e.Code
	}
	return e.Type
}

// cut is a connection's end before the answer's.
func cut(err error) *Failure {
	f := &Failure{Kind: "connection failed", Message: err.Error()}
	switch {
	case errors.Is(err, context.Canceled):
		f.Kind, f.given = "given up", true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		f.Kind = "time-out"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Kind = "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.Kind = "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.Kind = "connection closed"
	case errors.Is(err, openai.ErrEventTooLong):
		f.Kind = "event too long"
	}
	return f
}
