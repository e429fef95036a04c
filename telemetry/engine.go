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
}

// Gauges are read when the metrics are scraped.
type Gauges struct {
	Blocks, Free     int
	Running, Waiting int
	Send, Receive    int
	Parked           int
	Peers            int
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
	reg.MustRegister(newGauges(read))
	e.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return e
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
func (e *Engine) TransferFailed(cause string) { e.failed.WithLabelValues(cause).Inc() }

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
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds})
	reg.MustRegister(h)
	return h
}
