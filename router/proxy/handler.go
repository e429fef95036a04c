package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/router"
)

// maxRequestID is the longest ID that is taken from a client, in bytes.
const maxRequestID = 128

// endpoint is one of the paths that engines serve too.
type endpoint struct {
	path   string
	decode func(body []byte) (*openai.Request, *openai.Error)
}

// Handler serves clients: the OpenAI endpoints, and /health, /ready, /metrics and /debug/state.
func (r *Router) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, e := range []endpoint{
		{"/v1/completions", openai.DecodeCompletion},
		{"/v1/chat/completions", openai.DecodeChat},
	} {
		mux.HandleFunc(e.path, httpapi.Only(http.MethodPost, func(w http.ResponseWriter, req *http.Request) {
			r.complete(w, req, e)
		}))
	}
	mux.HandleFunc("/v1/models", httpapi.Only(http.MethodGet, r.serveModels))
	mux.HandleFunc("/health", httpapi.Only(http.MethodGet, r.serveHealth))
	mux.HandleFunc("/ready", httpapi.Only(http.MethodGet, r.serveReady))
	mux.HandleFunc("/debug/state", httpapi.Only(http.MethodGet, r.serveState))
	mux.HandleFunc("/metrics", httpapi.Only(http.MethodGet, r.metrics.handler().ServeHTTP))
	mux.HandleFunc("/", httpapi.NotFound)
	return mux
}

// complete answers a client's request. What is wrong with it is said here, before any engine
// is touched; only the prompt's length is left to the engines, which have the tokenizer.
// SERVE-03
func (r *Router) complete(w http.ResponseWriter, req *http.Request, e endpoint) {
	began := time.Now()
	r.running.Add(1)
	r.metrics.inFlight.Inc()
	defer func() {
		r.metrics.inFlight.Dec()
		r.running.Add(-1)
	}()
	attempt := mintID()
	id := clientID(req.Header, attempt)
	w.Header().Set(httpapi.HeaderRequestID, id)

	start := router.Start{ID: attempt}
	body, asked, err := r.admit(w, req, e)
	var talk router.Conversation
	if err == nil {
		if r.turns != nil {
			talk = router.ConversationOf(asked)
		}
		start.Pair, start.Turn, err = r.pick(asked.Model, talk)
	}
	if err != nil {
		httpapi.WriteError(w, err)
		r.metrics.ended(outcomeRefused, err.Status)
		r.log.Info("request refused", "id", id, "path", e.path, "status", err.Status, "type", err.Type, "code", err.Code)
		return
	}
	x := &exchange{
		r: r, req: req, path: e.path, body: body, model: asked.Model, talk: talk, id: id, began: began,
		answer: &answer{w: w, onFirst: func() { r.metrics.firstByte.Observe(time.Since(began).Seconds()) }},
	}
	x.run(start)
}

// admit reads and checks a client's body.
func (r *Router) admit(w http.ResponseWriter, req *http.Request, e endpoint) (body []byte, asked *openai.Request, _ *openai.Error) {
	if r.draining.Load() {
		return nil, nil, openai.Overloaded(http.StatusServiceUnavailable, "the router is shutting down")
	}
	body, bad := httpapi.ReadBody(w, req)
	if bad != nil {
		return nil, nil, bad
	}
	asked, bad = e.decode(body)
	if bad != nil {
		return nil, nil, bad
	}
	if asked.Disagg != nil {
		return nil, nil, handoverGiven("disaggregated_params")
	}
	if asked.KV != nil {
		return nil, nil, handoverGiven("kv_transfer_params")
	}
	return body, asked, nil
}

// handoverGiven refuses a hand-over from a client: whoever can name a request's blocks could
// read somebody's prompt.
func handoverGiven(param string) *openai.Error {
	return openai.BadRequest(param, "%s is set by the router and must not be given", param)
}

// mintID makes an ID that no other attempt has.
func mintID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// clientID is the ID under which a request is logged and answered: the client's first, if it
// is fit for a header and a log line, else the minted one.
func clientID(h http.Header, minted string) string {
	id := h.Get(httpapi.HeaderRequestID)
	unfit := strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0
	if id == "" || len(id) > maxRequestID || unfit {
		return minted
	}
	return id
}
