package node

import (
	"errors"
	"net/http"

	"kvferry/engine"
	"kvferry/openai"
	"kvferry/transfer"
)

// errClientGone is the cause of an abort for a client, or a router, that left.
var errClientGone = clientGone{}

// clientGone is a cancel, as far as the transfer is concerned.
type clientGone struct{}

func (clientGone) Error() string   { return "the client left" }
func (clientGone) Is(t error) bool { return t == transfer.ErrCancelled }

// failure is the answer that a client gets for a request that ended with err.
func failure(err error, param string) *openai.Error {
	var long *engine.TooLongError
	switch {
	case errors.As(err, &long):
		e := openai.BadRequest(param, "%s", long)
		e.Code = openai.CodeContextLength
		return e
	case errors.Is(err, engine.ErrEmpty):
		return openai.BadRequest(param, "%s", err)
	case errors.Is(err, engine.ErrRole), errors.Is(err, engine.ErrDuplicate):
		return openai.BadRequest("disaggregated_params", "%s", err)
	case errors.Is(err, engine.ErrOverloaded), errors.Is(err, errStopped):
		return openai.Overloaded(http.StatusServiceUnavailable, "%s", err)
	case errors.Is(err, transfer.ErrTimeout):
		return openai.Upstream(http.StatusGatewayTimeout, "%s", err)
	}
	if _, ok := transferCause(err); ok {
		return openai.Upstream(http.StatusBadGateway, "%s", err)
	}
	return openai.Internal("%s", err)
}

// outcomeOf is a request's outcome as a metric's label.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, transfer.ErrCancelled), errors.Is(err, transfer.ErrWithdrawn):
		return "cancelled"
	}
	return "failed"
}

// transferCause names why a transfer failed, as a metric's label.
func transferCause(err error) (string, bool) {
	var e *transfer.Error
	if !errors.As(err, &e) {
		return "", false
	}
	var remote *transfer.RemoteError
	switch {
	case errors.Is(err, transfer.ErrTimeout):
		return "timeout", true
	case errors.Is(err, transfer.ErrPeerLost):
		return "peer_lost", true
	case errors.Is(err, transfer.ErrCancelled):
		return "cancelled", true
	case errors.Is(err, transfer.ErrWithdrawn):
		return "withdrawn", true
	case errors.Is(err, transfer.ErrRefused):
		return "refused", true
	case errors.Is(err, transfer.ErrProtocol):
		return "protocol", true
	case errors.Is(err, transfer.ErrChecksum):
		return "checksum", true
	case errors.As(err, &remote):
		return "remote_" + remote.Status.String(), true
	}
	return "other", true
}

func legName(l engine.Leg) string {
	switch l {
	case engine.PrefillLeg:
		return "prefill"
	case engine.DecodeLeg:
		return "decode"
	}
	return "whole"
}
