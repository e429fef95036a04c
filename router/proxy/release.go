package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"kvferry/openai/httpapi"
	"kvferry/router"
)

const (
	// releaseTimeout is how long an engine may take to let go of what it holds.
	releaseTimeout = 2 * time.Second
	// maxReleases is how many engines are told at once. What is beyond is left to the lease's
	// end.
	maxReleases = 256
)

// sign adds the deployment's token, if there is one.
func (r *Router) sign(req *http.Request) {
	if r.cfg.Token != "" {
		req.Header.Set(httpapi.HeaderToken, r.cfg.Token)
	}
}

// release tells a prefill engine, in the background, that nobody will read what it holds. An
// engine that is not reached lets go when the lease ends. // case: 06
func (r *Router) release(out router.Release) {
	select {
	case r.releaseSlots <- struct{}{}:
	default:
		r.released(out, errors.New("the router tells as many as it may, or ends"))
		return
	}
	go func() {
		defer func() { <-r.releaseSlots }()
		r.released(out, r.postRelease(out))
	}()
}

// endReleases waits until all that is to be told was told, and lets nothing more begin.
func (r *Router) endReleases() {
	for range maxReleases {
		r.releaseSlots <- struct{}{}
	}
}

func (r *Router) postRelease(out router.Release) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, out.Engine.URL+httpapi.PathRelease, bytes.NewReader(out.Handle))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	r.sign(req)
	resp, err := r.client.Do(req)
	if err != nil {
		return bare(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply)) // for the connection's next use
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

func (r *Router) released(out router.Release, err error) {
	how := releaseOK
	if err != nil {
		how = releaseFailed
		r.log.Warn("held KV is not released", "url", out.Engine.URL, "why", err)
	}
	r.metrics.releases.WithLabelValues(how).Inc()
}

// takeLocal takes one of the places for requests that decode engines have to themselves.
// case: 12
func (r *Router) takeLocal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.locals >= r.cfg.LocalCap {
		return false
	}
	r.locals++
	r.metrics.locals.Set(float64(r.locals))
	return true
}

func (r *Router) giveLocal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locals--
	r.metrics.locals.Set(float64(r.locals))
}
