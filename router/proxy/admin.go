package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/router"
)

// maxState is the longest engine state that is shown, in bytes.
const maxState = 1 << 20

func (r *Router) serveHealth(w http.ResponseWriter, _ *http.Request) {
	httpapi.WriteJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

// serveReady says whether a request would be taken now.
func (r *Router) serveReady(w http.ResponseWriter, _ *http.Request) {
	ready := r.ready()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	httpapi.WriteJSON(w, status, struct {
		Ready bool `json:"ready"`
	}{ready})
}

// serveModels lists the models of ready engines.
func (r *Router) serveModels(w http.ResponseWriter, _ *http.Request) {
	var models []openai.Model
	for _, m := range r.models() {
		models = append(models, openai.Model{
			ID: m.Name, Created: r.began.Unix(), OwnedBy: "kvferry", MaxModelLen: m.Context,
		})
	}
	httpapi.WriteJSON(w, http.StatusOK, openai.NewModelList(models...))
}

// routerState is /debug/state.
type routerState struct {
	Role     string        `json:"role"`
	Engines  []engineState `json:"engines"`
	Requests struct {
		Running int64 `json:"running"`
	} `json:"requests"`
}

type engineState struct {
	Role  string `json:"role"`
	URL   string `json:"url"`
	PID   int    `json:"pid"`
	Ready bool   `json:"ready"`
	// State is the engine's own /debug/state, null if it did not give it in time.
	State json.RawMessage `json:"state"`
}

// serveState shows the router and, asked just now, all its engines.
func (r *Router) serveState(w http.ResponseWriter, req *http.Request) {
	s := routerState{Role: "router"}
	s.Requests.Running = r.running.Load()
	engines := r.engines()
	s.Engines = make([]engineState, len(engines))
	var wg sync.WaitGroup
	for i, e := range engines {
		wg.Go(func() {
			s.Engines[i] = engineState{
				Role: e.Role.String(), URL: e.URL, PID: e.Report.PID, Ready: e.Ready,
				State: r.stateOf(req.Context(), e),
			}
		})
	}
	wg.Wait()
	httpapi.WriteJSON(w, http.StatusOK, s)
}

// stateOf asks an engine for its state; nil if there is none to be had.
func (r *Router) stateOf(ctx context.Context, e router.Engine) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/debug/state", nil)
	if err != nil {
		return nil
	}
	r.sign(req)
	resp, err := r.asker.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxState))
	if err != nil || resp.StatusCode != http.StatusOK || !json.Valid(text) {
		return nil
	}
	return text
}
