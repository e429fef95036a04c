package node

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// AwaitReady waits until the server at addr says that it can serve, or ctx ends.
func AwaitReady(ctx context.Context, addr string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ready", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", addr, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
