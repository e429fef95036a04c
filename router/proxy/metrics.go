package proxy

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kvferry/router"
)

// outcome is how a request ended, as the metrics and the log name it.
type outcome string

const (
	// outcomeOK: the whole answer was passed on.
	outcomeOK outcome = "ok"
	// outcomeRefused: the request never reached an engine.
	outcomeRefused outcome = "refused"
	// outcomeFailed: an engine failed before anything was sent to the client.
	outcomeFailed outcome = "failed"
	// outcomeBroken: the answer broke off after its headers.
	outcomeBroken outcome = "broken"
	// outcomeGone: the client hung up.
	outcomeGone outcome = "client_gone"
)

// statusGone is what a request counts as whose client did not wait for a status.
const statusGone = 499

// How a release ended, as the metrics name it.
const (
	releaseOK     = "ok"
	releaseFailed = "failed"
)

// whys are the reasons for which a request can fail with a leg.
var whys = map[router.Role][]router.Why{
	router.Prefill: {router.WhyRefused, router.WhyPolicy, router.WhyTries, router.WhyNoEngine, router.WhyLocalCap},
	router.Decode:  {router.WhyRefused, router.WhyTries, router.WhyNoEngine, router.WhyPrefill, router.WhyLocal},
}

// metrics are the router's own, on a registry of its own so that two routers in a process do
// not meet.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	inFlight    prometheus.Gauge
	engineUp    *prometheus.GaugeVec
	legFailures *prometheus.CounterVec
	retries     *prometheus.CounterVec
	givenUp     *prometheus.CounterVec
	releases    *prometheus.CounterVec
	locals      prometheus.Gauge
	firstByte   prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvferry_router_requests_total",
			Help: "Requests that ended, by outcome and by the status sent to the client.",
		}, []string{"outcome", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvferry_router_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
		engineUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kvferry_router_engine_up",
			Help: "1 if the engine can be chosen, else 0.",
		}, []string{"role", "url"}),
		legFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvferry_router_leg_failures_total",
			Help: "Legs that failed by themselves, not because the request was given up.",
		}, []string{"role"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvferry_router_retries_total",
			Help: "What was tried after a leg failed: another prefill engine, the whole request on a decode engine, or another decode engine with the same handle.",
		}, []string{"leg", "policy"}),
		givenUp: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvferry_router_given_up_total",
			Help: "Requests that failed with a leg, by the reason why nothing more was tried.",
		}, []string{"leg", "why"}),
		releases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvferry_router_releases_total",
			Help: "Prefill engines that were told that nobody will read what they hold.",
		}, []string{"outcome"}),
		locals: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvferry_router_local_prefills",
			Help: "Requests that decode engines have to themselves now, because prefill failed.",
		}),
		firstByte: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kvferry_router_first_byte_seconds",
			Help:    "From a request's arrival to the first byte of its answer, for answers that came from an engine.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
	}
	m.registry.MustRegister(m.requests, m.inFlight, m.engineUp, m.legFailures, m.retries, m.givenUp, m.releases, m.locals, m.firstByte)
	for _, role := range []router.Role{router.Prefill, router.Decode} {
		m.legFailures.WithLabelValues(role.String())
	}
	for leg, reasons := range whys {
		for _, why := range reasons {
			m.givenUp.WithLabelValues(leg.String(), string(why))
		}
	}
	m.releases.WithLabelValues(releaseOK)
	m.releases.WithLabelValues(releaseFailed)
	m.retries.WithLabelValues(router.Prefill.String(), router.PolicyOther)
	m.retries.WithLabelValues(router.Prefill.String(), router.PolicyLocal)
	m.retries.WithLabelValues(router.Decode.String(), router.SameHandle)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) ended(o outcome, status int) {
	m.requests.WithLabelValues(string(o), strconv.Itoa(status)).Inc()
}

func (m *metrics) engine(e router.Engine) {
	up := 0.0
	if e.Ready {
		up = 1
	}
	m.engineUp.WithLabelValues(e.Role.String(), e.URL).Set(up)
}
