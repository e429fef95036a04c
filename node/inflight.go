package node

import (
	"context"
	"net/http"
	"sync"
)

// inFlight counts the requests that a server is answering.
type inFlight struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when there is none; nil unless somebody waits
}

// counted is a handler whose requests are counted.
func (f *inFlight) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.add(1)
		defer f.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (f *inFlight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n += n
	if f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// wait waits until no request is being answered, or ctx ends.
func (f *inFlight) wait(ctx context.Context) {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return
	}
	if f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	f.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}
