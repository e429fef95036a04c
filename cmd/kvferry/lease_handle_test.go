package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

// policies are those for a prompt whose KV cannot be loaded.
var policies = []string{node.FailPolicy, node.RecomputePolicy}

// loads checks what comes of a request whose handle is of no use.
func loads(t *testing.T, policy string, d *part, r e2etest.Request, handle json.RawMessage, reasons ...string) {
	t.Helper()
	got, err := d.Complete(t.Context(), with(r, handle))
	if policy == node.RecomputePolicy {
		right(t, r, got, err)
		return
	}
	failedWith(t, err, reasons...)
}

// changed is a handle with other values for some of its fields; nil takes a field out.
func changed(t *testing.T, handle json.RawMessage, fields map[string]any) json.RawMessage {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(handle, &all); err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, fields)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestProxyOfTwoSteps: whoever speaks to the engines as a proxy of vLLM's does, with the handle
// passed on as it came, has the right answers.
//
// req: LEASE-12, LEASE-13, SERVE-02
func TestProxyOfTwoSteps(t *testing.T) {
	c := deployment{}.start(t)
	chat := e2etest.Request{Messages: []e2etest.Message{{Role: "user", Content: prose}}}.With(greedy).With(map[string]any{"max_tokens": 20})
	for _, r := range []e2etest.Request{short(1), short(2).Streamed(), chat, chat.Streamed()} {
		handle := c.p.handle(t, r)
		c.p.leases(t, 1)
		got, err := c.d[0].Complete(t.Context(), with(r, handle))
		right(t, r, got, err)
	}
	if n := c.d[0].metric(t, pulls); n != 4 {
		t.Errorf("%v prompts were read", n)
	}
	baseline(t, c.p, c.d[0])
}

// TestHandleRefused: a handle that is of no use, for whatever reason, is an error that says the
// reason, or the prompt is computed, as the policy is; and nothing stays with either engine.
//
// req: LEASE-16, LEASE-17, LEASE-23
func TestHandleRefused(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			c := deployment{
				prefill: []string{"--kv-lease-duration=1s"},
				decode:  []string{"--kv-load-failure-policy=" + policy},
			}.start(t)
			for what, tc := range map[string]struct {
				fields map[string]any
				reason string
			}{
				"blocks that are not there":  {map[string]any{"remote_block_ids": [][]int{{1, 2, 1 << 20}, {1, 2, 3}}}, "is not in the peer's pools"},
				"too few blocks":             {map[string]any{"remote_block_ids": [][]int{{1}, {1}}}, "handle does not fit"},
				"groups that are not there":  {map[string]any{"remote_block_ids": [][]int{{1}, {1}, {1}, {1}, {1}}}, "block lists for"},
				"a slot that is not there":   {map[string]any{"remote_lease_slot": 1 << 20}, "lease slot 1048576 of"},
				"another nonce":              {map[string]any{"remote_lease_nonce": 77}, "the nonce is not the request's"},
				"another request":            {map[string]any{"remote_request_id": "nobody", "remote_lease_nonce": 77}, "no such request"},
				"neither slot nor nonce":     {map[string]any{"remote_lease_slot": nil, "remote_lease_nonce": nil}, "no slot"},
				"no nonce":                   {map[string]any{"remote_lease_nonce": nil}, "fields missing"},
				"no slot":                    {map[string]any{"remote_lease_slot": nil}, "fields missing"},
				"no hashes":                  {map[string]any{"remote_block_hashes": nil}, "has no remote_block_hashes"},
				"hashes of another prompt":   {map[string]any{"remote_block_hashes": []string{fmt.Sprintf("%064x", 1)}}, "of another prompt"},
				"an engine that is not this": {map[string]any{"remote_engine_id": fmt.Sprintf("%032x", 1)}, "earlier life"},
			} {
				r := short(len(what))
				reasons := []string{tc.reason}
				if strings.HasPrefix(what, "another ") {
					reasons = append(reasons, "lapsed") // the slot was read before the claim was answered
				}
				loads(t, policy, c.d[0], r, changed(t, c.p.handle(t, r), tc.fields), reasons...)
				if t.Failed() {
					t.Fatal(what)
				}
			}
			baseline(t, c.p, c.d[0])
		})
	}
}

// TestHandleTwice: a handle whose KV was read is refused, and its KV is not used again.
//
// req: LEASE-16, LEASE-17
func TestHandleTwice(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			c := deployment{decode: []string{"--kv-load-failure-policy=" + policy}}.start(t)
			handle := c.p.handle(t, short(1))
			got, err := c.d[0].Complete(t.Context(), with(short(1), handle))
			right(t, short(1), got, err)
			c.p.leases(t, 0)
			loads(t, policy, c.d[0], short(1), handle, "was consumed", "lapsed")
			baseline(t, c.p, c.d[0])
		})
	}
}

// TestHandleWithoutToken: who has no token gets nothing: no handle, no KV of somebody else's, and
// cannot end a lease either. Neither engine notices.
//
// req: LEASE-16
func TestHandleWithoutToken(t *testing.T) {
	c := deployment{}.start(t)
	r := short(1)
	handle := c.p.handle(t, r)
	c.p.leases(t, 1)
	before := []node.State{c.p.state(t), c.d[0].state(t)}
	for _, token := range []string{"", "another"} {
		for _, e := range []*part{c.p, c.d[0]} {
			stranger := e2etest.NewClient(e.URL, e.Model)
			defer stranger.Close()
			stranger.Header = http.Header{"X-Kvferry-Token": {token}}
			for _, kv := range []json.RawMessage{handle, json.RawMessage(askPrefill)} {
				_, err := stranger.Complete(t.Context(), with(r, kv))
				if e, ok := err.(*openai.Error); !ok || e.Status != http.StatusForbidden {
					t.Errorf("%s answers %v", e, err)
				}
			}
			resp, err := stranger.Post(t.Context(), "/v1/leases/release", handle)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("a release: %s", resp.Status)
			}
		}
	}
	if after := []node.State{c.p.state(t), c.d[0].state(t)}; !reflect.DeepEqual(before, after) {
		t.Errorf("the engines were %+v and are %+v", before, after)
	}
	got, err := c.d[0].Complete(t.Context(), with(r, handle))
	right(t, r, got, err)
	baseline(t, c.p, c.d[0])
}

// TestOneSlot: a prompt that finds no free slot has no proof: engines that verify do not use its
// KV, by the policy. The one that has the slot is not harmed, and the slot is used again.
//
// req: LEASE-17, LEASE-19
func TestOneSlot(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			c := deployment{
				prefill: []string{"--kv-lease-slots=1"},
				decode:  []string{"--kv-load-failure-policy=" + policy},
			}.start(t)
			for n := range 2 {
				first := c.p.handle(t, short(n))
				second := c.p.handle(t, short(n+10))
				loads(t, policy, c.d[0], short(n+10), second, "no slot")
				if got := c.d[0].metric(t, "kvferry_lease_verification_failures_total", `reason="no slot"`); got != float64(n+1) {
					t.Errorf("%v loads failed for want of a slot", got)
				}
				c.p.leases(t, 1)
				got, err := c.d[0].Complete(t.Context(), with(short(n), first))
				right(t, short(n), got, err)
				c.p.leases(t, 0)
			}
			baseline(t, c.p, c.d[0])
		})
	}
}
