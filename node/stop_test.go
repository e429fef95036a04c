package node

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestStopWhileAsked: an engine that stops while requests come answers those that it let in
// and refuses the others; the race detector watches the door.
func TestStopWhileAsked(t *testing.T) {
	for range 20 {
		cfg := DefaultEngineConfig()
		cfg.TrustNetwork = true
		cfg.Model = "emulated:test"
		e, err := StartEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		began := make(chan struct{}, 8)
		for range cap(began) {
			wg.Go(func() {
				began <- struct{}{}
				body := strings.NewReader(`{"model":"emulated:test","prompt":"a","max_tokens":1}`)
				resp, err := http.Post("http://"+e.Addr()+"/v1/completions", "application/json", body)
				if err != nil {
					return // the listener is closed
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("status %d", resp.StatusCode)
				}
			})
		}
		<-began
		e.Stop(t.Context())
		wg.Wait()
	}
}
