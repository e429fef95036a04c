package openai

import "strings"

// The values of Disagg.RequestType.
const (
	ContextOnly    = "context_only"
	GenerationOnly = "generation_only"
)

// GenerationFirst is the schedule style in which prefill and decode are asked at once.
const GenerationFirst = 1

// disaggParam is the parameter's name.
const disaggParam = "disaggregated_params"

// The limits of Disagg's strings, in bytes.
const (
	maxRequestID = 128
	maxEndpoint  = 512
)

// Disagg is disaggregated_params: what a router tells an engine about its part in a request.
// Names and values are those of TensorRT-LLM, but for the ID, which is text here. PIPE-21
type Disagg struct {
	// RequestType is ContextOnly for the prefill engine, GenerationOnly for the decode engine.
	RequestType string `json:"request_type"`
	// RequestID is the attempt's ID, the same on both engines: printable ASCII without spaces,
	// at most 128 bytes.
	RequestID string `json:"disagg_request_id"`
	// ScheduleStyle is GenerationFirst.
	ScheduleStyle int `json:"schedule_style"`
	// CtxInfoEndpoint is the address of the prefill engine's transfer agent, in the agent's
	// form (host:port for TCP). The decode engine needs it.
	CtxInfoEndpoint string `json:"ctx_info_endpoint,omitempty"`
}

// check validates d; names in the errors begin with the parameter's.
func (d Disagg) check() *Error {
	switch {
	case d.RequestType != ContextOnly && d.RequestType != GenerationOnly:
		return disaggError("request_type", "must be %q or %q", ContextOnly, GenerationOnly)
	case !printable(d.RequestID, maxRequestID):
		return disaggError("disagg_request_id", "must be 1 to %d printable ASCII characters without spaces", maxRequestID)
	case d.ScheduleStyle != GenerationFirst:
		return disaggError("schedule_style", "must be %d (generation first): other styles are not supported", GenerationFirst)
	case d.RequestType == GenerationOnly && d.CtxInfoEndpoint == "":
		return disaggError("ctx_info_endpoint", "is required with %q", GenerationOnly)
	case d.CtxInfoEndpoint != "" && !printable(d.CtxInfoEndpoint, maxEndpoint):
		return disaggError("ctx_info_endpoint", "must be an address")
	}
	return nil
}

func disaggError(field, format string, args ...any) *Error {
	return value{name: disaggParam + "." + field}.bad(format, args...)
}

// printable holds for 1 to limit bytes of printable ASCII without spaces.
func printable(s string, limit int) bool {
	return s != "" && len(s) <= limit &&
		strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

func setDisagg(r *Request, v value) *Error {
	fields, err := v.members()
	if err != nil {
		return err
	}
	var d Disagg
	for _, m := range fields {
		f := v.field(m)
		if f.isNull() {
			continue
		}
		switch m.key {
		case "request_type":
			d.RequestType, err = f.string()
		case "disagg_request_id":
			d.RequestID, err = f.string()
		case "ctx_info_endpoint":
			d.CtxInfoEndpoint, err = f.string()
		case "schedule_style":
			var n int64
			n, err = f.int(0, maxTokensLimit)
			d.ScheduleStyle = int(n)
		default:
			err = f.bad("is not supported")
		}
		if err != nil {
			return err
		}
	}
	r.Disagg = &d
	return d.check()
}

// WithDisagg puts d into a client's body, which must not have it. Everything else keeps its
// bytes, so numbers and their spelling pass unchanged (case 16).
func WithDisagg(body []byte, d Disagg) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return withParam(body, disaggParam, marshal(d))
}
