package node

import (
	"net/http"
	"os"

	"kvferry/openai"
	"kvferry/openai/httpapi"
)

// handler is the engine's HTTP surface.
func (e *Engine) handler() http.Handler {
	get := func(h http.HandlerFunc) http.HandlerFunc { return httpapi.Only(http.MethodGet, h) }
	post := func(decode decoder) http.HandlerFunc {
		return httpapi.Only(http.MethodPost, func(w http.ResponseWriter, r *http.Request) { e.complete(w, r, decode) })
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/completions", post(openai.DecodeCompletion))
	mux.HandleFunc("/v1/chat/completions", post(openai.DecodeChat))
	mux.HandleFunc("/v1/models", get(e.models))
	mux.HandleFunc("/v1/leases/release", httpapi.Only(http.MethodPost, e.releaseLease))
	mux.HandleFunc("/health", get(func(w http.ResponseWriter, _ *http.Request) {
		httpapi.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}))
	mux.HandleFunc("/ready", get(e.ready))
	mux.HandleFunc("/debug/state", get(e.state))
	mux.HandleFunc("/metrics", get(e.metrics.Handler().ServeHTTP))
	mux.HandleFunc("/", httpapi.NotFound)
	return mux
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	m := e.run.Model()
	httpapi.WriteJSON(w, http.StatusOK, openai.NewModelList(openai.Model{
		ID: m.Name, Created: e.began.Unix(), OwnedBy: "kvferry", MaxModelLen: m.Context,
	}))
}

// Readiness is the answer of GET /ready, which routers poll.
type Readiness struct {
	Ready    bool   `json:"ready"`
	Role     string `json:"role"`
	PID      int    `json:"pid"`
	Life     string `json:"life"`
	Model    string `json:"model"`
	Agent    string `json:"agent,omitempty"`
	Context  int    `json:"context"`
	Draining bool   `json:"draining"`
}

func (e *Engine) ready(w http.ResponseWriter, _ *http.Request) {
	m := e.run.Model()
	r := Readiness{
		Role: e.cfg.Role.String(), PID: os.Getpid(), Life: e.life.String(), Model: m.Name,
		Agent: e.AgentAddr(), Context: m.Context, Draining: e.draining.Load(),
	}
	// The loop must answer too: an engine whose machine is stuck serves nothing.
	_, err := e.Counts()
	r.Ready = err == nil && !r.Draining
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	httpapi.WriteJSON(w, status, r)
}

// State is the answer of GET /debug/state. An idle engine has every block free and all other
// counts at zero.
type State struct {
	Role     string        `json:"role"`
	PID      int           `json:"pid"`
	Life     string        `json:"life"`
	Pool     PoolState     `json:"pool"`
	Requests RequestState  `json:"requests"`
	Sessions SessionsState `json:"sessions"`
	Leases   int           `json:"leases"`
	Turns    TurnState     `json:"turns"`
	Parked   int           `json:"parked"`
	Peers    int           `json:"peers"`
}

// PoolState counts the blocks of all pools.
type PoolState struct {
	Total int `json:"total"`
	Free  int `json:"free"`
}

// TurnState counts the finished answers that are kept for a next turn, and the blocks that they
// hold, which whoever needs them takes.
type TurnState struct {
	Count  int `json:"count"`
	Blocks int `json:"blocks"`
}

// RequestState counts requests.
type RequestState struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// SessionsState counts transfer sessions.
type SessionsState struct {
	Send    int `json:"send"`
	Receive int `json:"receive"`
	Offer   int `json:"offer"`
	Pull    int `json:"pull"`
}

func (e *Engine) state(w http.ResponseWriter, _ *http.Request) {
	c, peers, err := e.loop.counts()
	if err != nil {
		httpapi.WriteError(w, openai.Overloaded(http.StatusServiceUnavailable, "%s", err))
		return
	}
	httpapi.WriteJSON(w, http.StatusOK, State{
		Role: e.cfg.Role.String(), PID: os.Getpid(), Life: e.life.String(),
		Pool:     PoolState{Total: c.Blocks, Free: c.Free},
		Requests: RequestState{Running: c.Running, Waiting: c.Waiting},
		Sessions: SessionsState{Send: c.Send, Receive: c.Receive, Offer: c.Offers, Pull: c.Pull},
		Leases:   c.Leases, Turns: TurnState{Count: c.Turns, Blocks: c.TurnBlocks},
		Parked: c.Parked, Peers: peers,
	})
}
