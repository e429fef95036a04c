package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"kvferry/router"
)

// maxReport is the longest answer to a poll, in bytes.
const maxReport = 64 << 10

// readyBody is an engine's answer to GET /ready.
type readyBody struct {
	Ready    bool   `json:"ready"`
	Role     string `json:"role"`
	PID      int    `json:"pid"`
	Life     string `json:"life"`
	Model    string `json:"model"`
	Agent    string `json:"agent"`
	Context  int    `json:"context"`
	Draining bool   `json:"draining"`
}

// Run polls the engines until ctx ends.
func (r *Router) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, e := range r.engines() {
		wg.Go(func() { r.watch(ctx, e) })
	}
	wg.Wait()
	r.endReleases()
	r.client.CloseIdleConnections()
}

// watch polls one engine, at its interval and whenever a request failed on it.
func (r *Router) watch(ctx context.Context, e router.Engine) {
	ticker := time.NewTicker(r.cfg.PollInterval)
	defer ticker.Stop()
	for {
		r.poll(ctx, e)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-r.poke[e.Index]:
		}
	}
}

func (r *Router) poll(ctx context.Context, e router.Engine) {
	r.mu.Lock()
	poll := r.pool.Ask(e.Index)
	r.mu.Unlock()

	report, err := r.ask(ctx, e)
	if ctx.Err() != nil {
		return // the router ends: that says nothing of the engine
	}
	r.mu.Lock()
	var c router.Change
	if err != nil {
		c = r.pool.Silent(poll, err.Error())
	} else {
		c = r.pool.Answered(poll, report)
	}
	r.mu.Unlock()
	r.changed(c)
}

// ask gets an engine's report. An engine that cannot serve answers 503 with the same body.
func (r *Router) ask(ctx context.Context, e router.Engine) (router.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/ready", nil)
	if err != nil {
		return router.Report{}, err
	}
	r.sign(req)
	resp, err := r.asker.Do(req)
	if err != nil {
		return router.Report{}, fmt.Errorf("cannot be reached: %w", bare(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return router.Report{}, fmt.Errorf("answers GET /ready with status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return router.Report{}, fmt.Errorf("breaks off its report: %w", bare(err))
	}
	var body readyBody
	if err := json.Unmarshal(text, &body); err != nil {
		return router.Report{}, fmt.Errorf("answers GET /ready with no report: %w", err)
	}
	return body.report(resp.StatusCode, e)
}

func (b readyBody) report(status int, e router.Engine) (router.Report, error) {
	rep := router.Report{
		Ready: b.Ready && status == http.StatusOK, Draining: b.Draining, Role: b.Role,
		PID: b.PID, Life: b.Life, Model: b.Model, Context: b.Context,
	}
	// Only a prefill engine's agent is handed on; an engine that still starts may have none.
	if e.Role == router.Prefill && rep.Ready {
		var err error
		if rep.Agent, err = agentAddr(b.Agent, e.URL); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// lost takes an engine out on which a request's connection failed, and asks it at once
// whether it is still there.
func (r *Router) lost(e router.Engine, cause error) {
	r.mu.Lock()
	c := r.pool.Lost(e.Index, e.Report.Life, "lost a request's connection: "+cause.Error())
	r.mu.Unlock()
	r.changed(c)
	select {
	case r.poke[e.Index] <- struct{}{}:
	default: // a poll is asked for already
	}
}

// changed makes a change of the pool known.
func (r *Router) changed(c router.Change) {
	e := c.Engine
	if c.NewLife {
		// Connections kept from the life before may look alive while the host, started again
		// too, does not know them.
		r.client.CloseIdleConnections()
		r.log.Info("engine has a new life", "role", e.Role, "url", e.URL, "life", e.Report.Life, "pid", e.Report.PID)
	}
	if !c.Turned {
		return
	}
	r.metrics.engine(e)
	if e.Ready {
		r.log.Info("engine is ready", "role", e.Role, "url", e.URL, "life", e.Report.Life,
			"pid", e.Report.PID, "model", e.Report.Model)
		return
	}
	r.log.Warn("engine is not ready", "role", e.Role, "url", e.URL, "why", e.Why)
}
