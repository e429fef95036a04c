package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
	"kvferry/transfer"
)

// leaver is a request whose client can leave.
type leaver struct {
	hang context.CancelFunc
	end  chan error
}

func send(t *testing.T, c *e2etest.Cluster, r e2etest.Request) leaver {
	ctx, hang := context.WithCancel(t.Context())
	l := leaver{hang, make(chan error, 1)}
	go func() {
		_, err := c.Complete(ctx, r)
		l.end <- err
	}()
	return l
}

// leave hangs up. The request must not have ended before.
func (l leaver) leave(t *testing.T) {
	t.Helper()
	l.hang()
	if err := <-l.end; !errors.Is(err, context.Canceled) {
		t.Fatalf("the request ended before its client left: %v", err)
	}
}

// brake is an observer that holds an engine's loop at one of its records, once.
type brake struct {
	what  transfer.What
	slice int
	armed atomic.Bool
	held  chan struct{} // one token when the loop is held
	free  chan struct{}
}

func newBrake(what transfer.What) *brake {
	return &brake{what: what, held: make(chan struct{}, 1), free: make(chan struct{})}
}

func (b *brake) observe(r engine.Record) {
	if r.What == b.what && r.Slice == b.slice && b.armed.CompareAndSwap(true, false) {
		b.held <- struct{}{}
		<-b.free
	}
}

// at arms the brake for a slice.
func (b *brake) at(slice int) {
	b.slice = slice
	b.armed.Store(true)
}

// wait waits until the loop is held.
func (b *brake) wait(t *testing.T) {
	t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	select {
	case <-b.held:
	case <-late.C:
		t.Fatalf("slice %d never came", b.slice)
	}
}

// TestHangUpWhilePrefilling: a client leaves at the first, a middle and the last chunk of its
// prompt. The prefill engine stops there, and nothing stays.
//
// req: SERVE-03, PIPE-16
// case: 13, 19
func TestHangUpWhilePrefilling(t *testing.T) {
	b := newBrake(transfer.SliceDue)
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{
		Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) { cfg.Observe = b.observe },
	})
	const prompt, chunk = 300, 48
	last := slicesOf(prompt, chunk, 16) - 1
	for _, slice := range []int{0, 2, last - 1, last} {
		for _, stream := range []bool{false, true} {
			b.at(slice)
			l := send(t, c, e2etest.Request{Prompt: tokens(prompt, 12), Stream: stream}.With(greedy))
			b.wait(t)
			l.hang()
			b.free <- struct{}{}
			// The answer may have been on its way already, after the last slice.
			if err := <-l.end; !errors.Is(err, context.Canceled) && slice < last {
				t.Errorf("slice %d: the request ended before its client left: %v", slice, err)
			}
			c.AwaitIdle(t)
			if err := same(t, c, cfg, e2etest.Request{Prompt: tokens(prompt, 12)}.With(seeded)); err != nil {
				t.Errorf("slice %d: the next request: %v", slice, err)
			}
			c.AwaitIdle(t)
		}
	}
}

// TestHangUpWhileQueued: a client leaves while its request waits behind another, on the decode
// engine for a compute slot, and on the prefill engine for blocks. The other is not harmed.
//
// req: SERVE-03
// case: 13
func TestHangUpWhileQueued(t *testing.T) {
	for _, tc := range []struct {
		where string
		slots int // of the decode engine
		queue func(c *e2etest.Cluster) *e2etest.Engine
	}{
		{"decode", 1, func(c *e2etest.Cluster) *e2etest.Engine { return c.D[0] }},
		{"prefill", 8, func(c *e2etest.Cluster) *e2etest.Engine { return c.P[0] }},
	} {
		t.Run(tc.where, func(t *testing.T) {
			cfg := smallConfig(t)
			var link slow
			c := e2etest.Start(t, e2etest.Options{
				Engine: cfg,
				OnPrefill: func(_ int, cfg *node.EngineConfig) {
					link.on(cfg)
					cfg.KVBlocks = pick(tc.where == "prefill", 20, 0)
				},
				OnDecode: func(_ int, cfg *node.EngineConfig) { cfg.MaxSeqs = tc.slots },
			})
			link.connect(t, c)
			link.Stall()
			r := e2etest.Request{Prompt: tokens(300, 13)}.With(greedy)
			first := ask(c.Client, r)
			c.D[0].Holds(t, "the first is on its way", func(n engine.Counts) bool { return n.Receive == 1 })
			c.P[0].Holds(t, "the first is computed", func(n engine.Counts) bool { return n.Running == 1 })
			l := send(t, c, r)
			tc.queue(c).Holds(t, "the second waits", func(n engine.Counts) bool { return n.Waiting == 1 })
			l.leave(t)
			e2etest.Await(t, e2etest.Soon, "the second is gone", func() error { return onlyOne(c) })
			link.Resume()
			got := come(t, "first request", first)
			if got.err == nil {
				got.err = got.answer.Differs(aggregated.Answer(t, cfg, r))
			}
			if got.err != nil {
				t.Errorf("the first: %v", got.err)
			}
		})
	}
}

// onlyOne checks that each engine of a pair has one request, in transfer.
func onlyOne(c *e2etest.Cluster) error {
	for _, e := range []*e2etest.Engine{c.P[0], c.D[0]} {
		n, err := e.Counts()
		if err != nil {
			return err
		}
		if n.Waiting != 0 || n.Running != 1 || n.Send+n.Receive != 1 || n.Parked != 0 {
			return fmt.Errorf("%s has %+v", e.URL, n)
		}
	}
	return nil
}

// TestHangUpWhileTransferring: a client leaves when some slices have landed, and more are in
// flight on a slow link.
//
// req: SERVE-03, PIPE-16
// case: 13
func TestHangUpWhileTransferring(t *testing.T) {
	for _, pipelined := range []bool{true, false} {
		t.Run(pick(pipelined, "pipelined", "monolithic"), func(t *testing.T) {
			cfg := smallConfig(t)
			cfg.Pipelined = pipelined
			var link slow
			link.Delay = 30 * time.Millisecond // a slice
			posted := newBrake(transfer.SlicePosted)
			c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnPrefill: func(_ int, cfg *node.EngineConfig) {
				link.on(cfg)
				cfg.Observe = posted.observe
			}})
			posted.at(pick(pipelined, slicesOf(1000, cfg.ChunkTokens, 16)-1, 0))
			l := send(t, c, e2etest.Request{Prompt: tokens(1000, 14)}.With(greedy))
			posted.wait(t)
			posted.free <- struct{}{}
			l.leave(t)
			c.AwaitIdle(t)
			if err := same(t, c, cfg, e2etest.Request{Prompt: tokens(100, 14)}.With(seeded)); err != nil {
				t.Errorf("the next request: %v", err)
			}
		})
	}
}

// TestHangUpOnDeadLink: a client leaves while the link does not move. The decode engine is
// rid of it at once; the prefill engine when the link moves again, since until then its
// blocks may be read. The late writes do not touch the request that has decode's blocks then.
//
// req: PIPE-16, PIPE-32
// case: 13, 18
func TestHangUpOnDeadLink(t *testing.T) {
	const prompt, output = 300, 300
	cfg := smallConfig(t)
	var link slow
	posted := newBrake(transfer.SlicePosted)
	c := e2etest.Start(t, e2etest.Options{
		Engine: cfg,
		OnPrefill: func(_ int, cfg *node.EngineConfig) {
			link.on(cfg)
			cfg.Observe = posted.observe
		},
		// So few blocks that the next request must have those of the one before.
		OnDecode: func(_ int, cfg *node.EngineConfig) { cfg.KVBlocks = (prompt+output)/16 + 2 },
	})
	link.connect(t, c)
	link.Stall()
	posted.at(slicesOf(prompt, cfg.ChunkTokens, 16) - 1)
	l := send(t, c, e2etest.Request{Prompt: tokens(prompt, 15)}.With(greedy))
	posted.wait(t)
	posted.free <- struct{}{}
	l.leave(t)
	c.D[0].AwaitIdle(t)

	r := e2etest.Request{Prompt: tokens(prompt, 16)}.With(greedy).With(map[string]any{"max_tokens": output, "ignore_eos": true})
	want := aggregated.Answer(t, cfg, r)
	s, err := c.D[0].Open(t.Context(), r)
	if err == nil {
		err = s.Next() // its prompt is computed now
	}
	if err != nil {
		t.Fatal(err)
	}
	link.Resume()
	got, err := s.Rest()
	if err == nil {
		err = got.Differs(want)
	}
	if err != nil {
		t.Errorf("the other: %v", err)
	}
}

// TestHangUpWhileDecoding: a client leaves after some tokens, streamed and not.
//
// req: SERVE-03
// case: 13
func TestHangUpWhileDecoding(t *testing.T) {
	cfg := e2etest.Config()
	cfg.Pipelined = true
	c := e2etest.Start(t, e2etest.Options{Engine: cfg})
	r := e2etest.Request{Prompt: prose}.With(greedy).With(map[string]any{"max_tokens": 6000, "ignore_eos": true})
	s, err := c.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	c.AwaitIdle(t)

	l := send(t, c, r)
	c.D[0].Holds(t, "decode runs", func(n engine.Counts) bool { return n.Running == 1 && n.Receive == 0 })
	l.leave(t)
	c.AwaitIdle(t)
	if err := same(t, c, cfg, e2etest.Request{Prompt: prose}.With(seeded)); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// TestHangUpsAtAnyTime: many clients whose patience is about as long as their answers take,
// each trying again until it is served. All get the right answers, and nothing stays.
//
// req: SERVE-02, SERVE-03
// case: 04, 06
func TestHangUpsAtAnyTime(t *testing.T) {
	clients, each := 6, pick(e2etest.Race, 3, 6)
	cfg := smallConfig(t)
	c := e2etest.Start(t, e2etest.Options{Prefill: 2, Decode: 2, Engine: cfg})
	r := e2etest.Request{Prompt: tokens(200, 17), Stream: true}.With(seeded)
	want := aggregated.Answer(t, cfg, r)
	var gone atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		rng := rand.New(rand.NewPCG(99, uint64(i)))
		wg.Go(func() {
			for range each {
				patience := time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
				for {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					got, err := c.Complete(ctx, r)
					cancel()
					if err == nil {
						err = got.Differs(want)
					}
					if err == nil {
						break
					}
					if e := new(openai.Error); errors.As(err, &e) || ctx.Err() == nil {
						t.Errorf("a patient client: %v", err)
						return
					}
					gone.Add(1)
					patience *= 2
				}
			}
		})
	}
	wg.Wait()
	if gone.Load() < int64(each) {
		t.Errorf("only %d clients left early", gone.Load())
	}
}
