package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"kvferry/router"
)

// A client that hangs up ends its request on both engines at once, at every stage. That is no
// failure of theirs.
// req: SERVE-03
// case: 13
func TestClientHangsUp(t *testing.T) {
	long := decodeStream(1000, 50*time.Millisecond, sendsDone)
	for name, tc := range map[string]struct {
		prefill, decode http.HandlerFunc
		after           time.Duration
		// prefillEnds says that prefill was done before.
		prefillEnds bool
	}{
		"at once":          {prefill: hangs, decode: hangs},
		"while prefilling": {prefill: prefillOK(time.Second), decode: hangs, after: 500 * time.Millisecond},
		"after prefill":    {prefill: prefillOK(0), decode: hangs, after: 500 * time.Millisecond, prefillEnds: true},
		"while streaming":  {prefill: prefillOK(0), decode: long, after: 510 * time.Millisecond, prefillEnds: true},
		"streaming early":  {prefill: hangs, decode: long, after: 510 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve, w.decode[0].serve = tc.prefill, tc.decode
				ctx, hangUp := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					resp, err := w.client.Do(w.request(ctx, "POST", "/v1/completions", greeting))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				}()
				w.pass(tc.after)
				hangUp()
				<-done
				// No time passes here: what is not given up by now was not given up at once.
				w.asked(w.prefill[0], !tc.prefillEnds)
				w.asked(w.decode[0], true)
				w.ended(outcomeGone, statusGone)
				checkLegFailures(t, w, 0, 0)
				checkTakenOut(t, w, false, "engine is not ready")
			})
		})
	}
}

// What a leg that was given up has to say is dropped: its connection failed because it was closed.
// case: 13
func TestGivenUpLegHasNoSay(t *testing.T) {
	x := &exchange{events: make(chan router.Event, 2)}
	ctx, cancel := context.WithCancel(t.Context())
	x.report(ctx, router.DecodeHeaders{})
	cancel()
	x.report(ctx, router.DecodeFailed{Failure: *lost(context.Canceled)})
	if len(x.events) != 1 {
		t.Errorf("%d events, want the one from before", len(x.events))
	}
}

// A client that is gone for reading only, or that takes no more bytes, does not hold the router
// or the engines; one whose write fails is gone, whatever else is known of it.
// case: 13
func TestClientCannotBeWrittenTo(t *testing.T) {
	for name, tc := range map[string]struct {
		stuck  bool
		hangUp bool
	}{
		"writes block": {stuck: true, hangUp: true},
		"writes fail":  {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.decode[0].serve = decodeStream(1000, 50*time.Millisecond, sendsDone)
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				client := &deafClient{ResponseRecorder: httptest.NewRecorder(), freed: make(chan struct{})}
				if !tc.stuck {
					close(client.freed)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					w.router.Handler().ServeHTTP(client, w.request(ctx, "POST", "/v1/completions", greeting))
				}()
				w.pass(time.Second)
				if tc.hangUp {
					hangUp()
				}
				w.settle()
				select {
				case <-done:
				default:
					t.Fatal("the request holds the router")
				}
				w.asked(w.decode[0], true)
				w.ended(outcomeGone, statusGone)
				checkLegFailures(t, w, 0, 0)
			})
		})
	}
}

// deafClient takes nothing: a write waits until it is freed by a deadline, and then fails.
type deafClient struct {
	*httptest.ResponseRecorder
	freed chan struct{}
}

func (c *deafClient) Write([]byte) (int, error) {
	<-c.freed
	return 0, os.ErrDeadlineExceeded
}

func (c *deafClient) SetWriteDeadline(at time.Time) error {
	select {
	case <-c.freed:
		return errors.New("closed")
	default:
	}
	if !at.After(time.Now()) {
		close(c.freed)
	}
	return nil
}
