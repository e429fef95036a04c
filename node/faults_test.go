package node_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"kvferry/agent/fault"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// linkFaults are what can befall the second slice of a prompt, and what the client is told.
var linkFaults = []struct {
	what   string
	action fault.Action
	status int
	says   []string // one of these
	cause  string   // of the prefill engine's metric
}{
	{
		"the write fails",
		fault.Action{Delay: 100 * time.Millisecond, Fail: errors.New("the wire is cut")},
		http.StatusBadGateway,
		[]string{"the wire is cut"},
		"other",
	},
	{
		"the peer is dropped",
		fault.Action{Drop: true},
		http.StatusBadGateway,
		[]string{"peer lost", "the script drops the peer"},
		"",
	},
}

// TestLinkFaults: a transfer that fails is the client's error at once, with status and reason,
// although the time-out is a minute. Both engines have their blocks back, and the next request
// is served over a new connection if need be.
//
// req: PIPE-18, SERVE-03
// case: 10, 11
func TestLinkFaults(t *testing.T) {
	for _, tc := range linkFaults {
		for _, stream := range []bool{false, true} {
			t.Run(tc.what+pick(stream, ", streamed", ""), func(t *testing.T) {
				cfg := smallConfig(t)
				cfg.PartBytes = 0 // the second write is the second slice
				var link slow
				link.Script = fault.Nth(fault.Write, 2, tc.action)
				c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { link.on(cfg) }})
				began := time.Now()
				_, err := c.Complete(t.Context(), e2etest.Request{Prompt: tokens(300, 18), Stream: stream}.With(greedy))
				if took := time.Since(began); took > 100*time.Millisecond+time.Second {
					t.Errorf("the client waited for %s", took)
				}
				says(t, err, tc.status, tc.says)
				c.AwaitIdle(t)
				if err := counted(t, c.P[0], `cause="`+tc.cause); err != nil {
					t.Error(err)
				}
				link.Script = nil
				if err := same(t, c, cfg, e2etest.Request{Prompt: tokens(20, 18)}.With(seeded)); err != nil {
					t.Errorf("the next request: %v", err)
				}
			})
		}
	}
}

// says checks an error's status and that it has one of the reasons.
func says(t *testing.T, err error, status int, reasons []string) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.Status != status || e.Code != openai.CodeUpstream && e.Code != openai.CodeUpstreamTime {
		t.Errorf("got %v, want status %d", err, status)
		return
	}
	for _, r := range reasons {
		if strings.Contains(e.Message, r) {
			return
		}
	}
	t.Errorf("message %q says none of %q", e.Message, reasons)
}

// timedOut checks that the client is told of a time-out: by the engine whose it was, or by the
// other, which has heard of it.
func timedOut(t *testing.T, err error) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.Status != http.StatusGatewayTimeout && e.Status != http.StatusBadGateway ||
		!strings.Contains(e.Message, "timed out") {
		t.Errorf("got %v, want a time-out", err)
	}
}

// counted looks for a failed transfer among an engine's metrics.
func counted(t *testing.T, e *e2etest.Engine, label string) error {
	t.Helper()
	got, err := e.Text(t.Context(), "/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(got)) {
		if strings.HasPrefix(line, "kvferry_transfer_failures_total") && strings.Contains(line, label) {
			return nil
		}
	}
	return errors.New("no metric of a failed transfer with " + label)
}

// TestLostNotice: a slice whose notice is lost is missed by the decode engine alone. Its
// time-out ends the request on both.
//
// req: PIPE-19
func TestLostNotice(t *testing.T) {
	cfg := smallConfig(t)
	cfg.PartBytes = 0 // each write has a notice
	cfg.TransferTimeout = 300 * time.Millisecond
	var link slow
	link.Script = fault.Nth(fault.Write, 3, fault.Action{LoseNotice: true})
	c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { link.on(cfg) }})
	began := time.Now()
	_, err := c.Complete(t.Context(), e2etest.Request{Prompt: tokens(300, 19)}.With(greedy))
	if took := time.Since(began); took > cfg.TransferTimeout+2*time.Second {
		t.Errorf("the client waited for %s", took)
	}
	timedOut(t, err)
}

// TestStuckWrite: a write that never ends is given up by both sides after the time-out, and its
// blocks come back although the link still does not move.
//
// req: PIPE-19
// case: 05
func TestStuckWrite(t *testing.T) {
	for _, pipelined := range []bool{true, false} {
		t.Run(pick(pipelined, "pipelined", "monolithic"), func(t *testing.T) {
			cfg := smallConfig(t)
			cfg.Pipelined = pipelined
			cfg.TransferTimeout = time.Second
			var link slow
			c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { link.on(cfg) }})
			link.connect(t, c)
			link.Stall()
			began := time.Now()
			_, err := c.Complete(t.Context(), e2etest.Request{Prompt: tokens(300, 20)}.With(greedy))
			if took := time.Since(began); took > cfg.TransferTimeout+2*time.Second {
				t.Errorf("the client waited for %s", took)
			}
			timedOut(t, err)
			c.AwaitIdle(t)
			link.Resume()
			if err := same(t, c, cfg, e2etest.Request{Prompt: tokens(300, 20)}.With(seeded)); err != nil {
				t.Errorf("the next request: %v", err)
			}
		})
	}
}
