package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// seconds are the bounds of every histogram of times: 0.5 ms to 64 s.
var seconds = prometheus.ExponentialBuckets(0.0005, 2, 18)

// Engine is one engine's metrics, on a registry of their own.
type Engine struct {
	registry *prometheus.Registry

	requests  *prometheus.CounterVec
	prompt    prometheus.Counter
	generated prometheus.Counter
	passes    prometheus.Histogram
	firstTok  prometheus.Histogram
	hidden    prometheus.Histogram
	exposed   prometheus.Histogram
	bytes     *prometheus.CounterVec
	slices    *prometheus.CounterVec
	failed    *prometheus.CounterVec

	pulls  pulls
	leases leases
}

// Gauges are read when the metrics are scraped.
type Gauges struct {
	Blocks, Free     int
	Running, Waiting int
	Send, Receive    int
	Parked           int
	Peers            int
	// Leases are granted and live, Turns held for their conversation's next one.
	Leases, Turns int
}

// NewEngine makes an engine's metrics; read gives the gauges of the moment.
func NewEngine(role string, read func() Gauges) *Engine {
	e := &Engine{registry: prometheus.NewRegistry()}
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"role": role}, e.registry)
	e.requests = counters(reg, "kvferry_requests_total", "Requests that ended, by leg and outcome.", "leg", "outcome")
	e.prompt = counter(reg, "kvferry_prompt_tokens_total", "Prompt tokens of requests that ended well.")
	e.generated = counter(reg, "kvferry_generated_tokens_total", "Tokens generated.")
	e.passes = histogram(reg, "kvferry_forward_pass_seconds", "Time of one forward pass.")
	e.firstTok = histogram(reg, "kvferry_time_to_first_token_seconds", "From a request's arrival to its first token.")
	e.hidden = histogram(reg, "kvferry_transfer_hidden_seconds",
		"Time of a request's transfer that passed while its prompt was still being computed.")
	e.exposed = histogram(reg, "kvferry_transfer_exposed_seconds",
		"Time of a request's transfer that its first token had to wait for.")
	e.bytes = counters(reg, "kvferry_transfer_bytes_total", "KV bytes that landed, by direction.", "direction")
	e.slices = counters(reg, "kvferry_transfer_slices_total", "Slices that landed, by direction.", "direction")
	e.failed = counters(reg, "kvferry_transfer_failures_total", "Transfers that failed, by cause.", "cause")
	e.pulls, e.leases = newPulls(reg), newLeases(reg)
	e.known()
	reg.MustRegister(newGauges(read))
	e.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return e
}

// known makes the series whose labels are known from the start, so that a dashboard sees a 0 and
// not a gap before the first event.
func (e *Engine) known() {
	for _, leg := range []string{"prefill", "decode", "whole"} {
		for _, outcome := range []string{"ok", "cancelled", "failed"} {
			e.requests.WithLabelValues(leg, outcome)
		}
	}
	for _, direction := range []string{"in", "out"} {
		e.bytes.WithLabelValues(direction)
		e.slices.WithLabelValues(direction)
	}
	for _, cause := range []string{"timeout", "peer_lost", "cancelled", "withdrawn", "refused", "protocol", "checksum"} {
		e.failed.WithLabelValues(cause)
	}
	for _, reason := range []string{Lapsed, SlotUnread, NoSlot, FieldsMissing} {
		e.leases.unproved.WithLabelValues(reason)
	}
	for _, outcome := range []string{TurnHit, TurnMiss, TurnExpired, TurnFailed} {
		e.leases.turnHits.WithLabelValues(outcome)
	}
}

// Handler serves the metrics.
func (e *Engine) Handler() http.Handler {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{})
}

// Pass counts a forward pass.
func (e *Engine) Pass(seconds float64) { e.passes.Observe(seconds) }

// FirstToken counts a first token, so many seconds after its request came.
func (e *Engine) FirstToken(seconds float64) { e.firstTok.Observe(seconds) }

// Token counts a generated token.
func (e *Engine) Token() { e.generated.Inc() }

// Ended counts a request's end.
func (e *Engine) Ended(leg, outcome string, promptTokens int) {
	e.requests.WithLabelValues(leg, outcome).Inc()
	if outcome == "ok" {
		e.prompt.Add(float64(promptTokens))
	}
}

// Sent counts a finished transfer's times (PIPE-27).
func (e *Engine) Sent(hidden, exposed float64) {
	e.hidden.Observe(hidden)
	e.exposed.Observe(exposed)
}

// Landed counts a slice that left ("out") or came ("in").
func (e *Engine) Landed(direction string, bytes uint64) {
	e.slices.WithLabelValues(direction).Inc()
	e.bytes.WithLabelValues(direction).Add(float64(bytes))
}

// TransferFailed counts a transfer that failed.
func (e *Engine) TransferFailed(cause string) {
	e.failed.WithLabelValues(cause).Inc()
	e.pulls.failed.Inc()
}

func counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	reg.MustRegister(c)
	return c
}

func counters(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	reg.MustRegister(c)
	return c
}

func histogram(reg prometheus.Registerer, name, help string) prometheus.Histogram {
	return sized(reg, name, help, seconds)
}

func sized(reg prometheus.Registerer, name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds})
	reg.MustRegister(h)
	return h
}
