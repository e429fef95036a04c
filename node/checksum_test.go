package node_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"kvferry/agent"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/wire"
)

// corrupter is an agent that changes KV which passes it, of the first request alone: on the way
// out, after the sender took the checksum, or on the receiver, after it landed.
type corrupter struct {
	agent.Agent
	out, in bool
	events  chan agent.Event
	done    atomic.Bool

	mu      sync.Mutex
	regions [][]byte
	granted []agent.Desc
}

// on puts the corrupter around an engine's agent.
func (c *corrupter) on(cfg *node.EngineConfig) {
	cfg.WrapAgent = func(inner agent.Agent) agent.Agent {
		c.Agent, c.events = inner, make(chan agent.Event)
		go c.relay()
		return c
	}
}

func (c *corrupter) Register(mem []byte) (agent.Region, error) {
	r, err := c.Agent.Register(mem)
	if err == nil {
		c.mu.Lock()
		c.regions = append(c.regions, mem)
		c.mu.Unlock()
	}
	return r, err
}

func (c *corrupter) Grant(epoch uint64, peer wire.Life, ranges []agent.Desc) {
	c.mu.Lock()
	c.granted = ranges
	c.mu.Unlock()
	c.Agent.Grant(epoch, peer, ranges)
}

func (c *corrupter) Write(t agent.Transfer) {
	if c.out && len(t.LocalIdx) > 0 && c.done.CompareAndSwap(false, true) {
		c.flip(t.Local[t.LocalIdx[len(t.LocalIdx)-1]])
	}
	c.Agent.Write(t)
}

func (c *corrupter) Events() <-chan agent.Event { return c.events }

func (c *corrupter) relay() {
	defer close(c.events)
	for ev := range c.Agent.Events() {
		if n, ok := ev.(agent.Notice); ok && c.in {
			c.landed(n.Payload)
		}
		c.events <- ev
	}
}

// landed spoils every block of a receive when the first of its writers is done.
func (c *corrupter) landed(payload []byte) {
	m, err := wire.DecodeMessage(payload)
	if r, ok := m.(*wire.Result); err == nil && ok && r.Bytes > 0 && c.done.CompareAndSwap(false, true) {
		c.mu.Lock()
		granted := c.granted
		c.mu.Unlock()
		c.flip(granted...)
	}
}

// flip changes one bit of an exponent, of an f16 that is a part of K of a block's first token.
func (c *corrupter) flip(descs ...agent.Desc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range descs {
		c.regions[d.Region][d.Offset+1] ^= 0x10
	}
}

// TestChecksumCatchesWhatIsSpoiled: a bit that changes on the way, or in the receiver's memory
// once it is there, fails the load with a clear error, and its request never decodes. Without the
// setting the same goes unnoticed, into a wrong answer.
//
// req: PIPE-33
// case: 09
func TestChecksumCatchesWhatIsSpoiled(t *testing.T) {
	model := windowed(t)
	r := e2etest.Request{Prompt: tokens(100, 3)}.With(greedy).With(map[string]any{"logprobs": 2})
	for name, spoil := range map[string]struct {
		out, in bool
		p, d    int // ranks
	}{
		"on the way":                  {out: true, p: 1, d: 1},
		"on arrival":                  {in: true, p: 1, d: 1},
		"on the way to another cut":   {out: true, p: 2, d: 4},
		"on arrival from another cut": {in: true, p: 4, d: 2},
	} {
		for _, checksum := range []bool{true, false} {
			t.Run(name+pick(checksum, ", with checksums", ", without"), func(t *testing.T) {
				cfg := mode{1, false, 256, "f16"}.config()
				cfg.Model, cfg.Checksum = model, checksum
				on := func(ranks int, spoils bool) func(int, *node.EngineConfig) {
					return func(_ int, cfg *node.EngineConfig) {
						cfg.TensorParallel = ranks
						if spoils {
							(&corrupter{out: spoil.out, in: spoil.in}).on(cfg)
						}
					}
				}
				c := e2etest.Start(t, e2etest.Options{
					Engine: cfg, OnPrefill: on(spoil.p, spoil.out), OnDecode: on(spoil.d, spoil.in),
				})
				want := aggregated.Answer(t, cfg, r)
				got, err := c.Complete(context.Background(), r)
				switch {
				case checksum:
					fails(t, "a spoiled load", err, http.StatusBadGateway, "checksum mismatch")
				case err != nil:
					t.Errorf("nobody looks, and yet: %v", err)
				case got.Differs(want) == nil:
					t.Error("the answer is right: nothing was spoiled, so this shows nothing")
				}
				// It was the bit, and not the setting: the next request is served.
				got, err = c.Complete(context.Background(), r)
				if err == nil {
					err = got.Differs(want)
				}
				if err != nil {
					t.Errorf("the next request: %v", err)
				}
			})
		}
	}
}
