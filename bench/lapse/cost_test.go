package lapse_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// big has 128 KiB of KV a token: costTokens of it, with the one that is computed again, are read
// as 64 MiB.
const (
	big        = "emulated:llama-3.1-8b@h100,context=1024"
	costTokens = 512 + 1
	costBlocks = 80
	costBytes  = 64 << 20
)

// BenchmarkPull reads 64 MiB of KV by one decode engine that verifies and one that does not, in
// turn, from one prefill engine: medians of all rounds. Run it with -benchtime 15x.
func BenchmarkPull(b *testing.B) {
	s := spec{Role: engine.Prefill, Model: big, Blocks: costBlocks, Lease: time.Minute, Verify: true, Policy: node.FailPolicy, MaxChunk: 1024}
	p := start(b, s)
	s.Role = engine.Decode
	proves := start(b, s)
	s.Verify = false
	trusts := start(b, s)
	rnd := rand.New(rand.NewPCG(6, 6))
	pull(b, p, proves, rnd) // connections, lists and pages are made
	pull(b, p, trusts, rnd)
	var with, without []timing
	for b.Loop() {
		with = append(with, pull(b, p, proves, rnd))
		without = append(without, pull(b, p, trusts, rnd))
	}
	blocks := median(with, func(t timing) time.Duration { return t.Blocks })
	slot := median(with, func(t timing) time.Duration { return t.Slot })
	b.ReportMetric(0, "ns/op")
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	b.ReportMetric(ms(blocks), "blocks-ms")
	b.ReportMetric(ms(slot), "slot-ms")
	b.ReportMetric(ms(median(with, pulled)), "pull-verified-ms")
	b.ReportMetric(ms(median(without, pulled)), "pull-unverified-ms")
	b.ReportMetric(100*median(with, pulled).Seconds()/median(without, pulled).Seconds()-100, "%more")
	b.ReportMetric(100*slot.Seconds()/median(with, pulled).Seconds(), "%slot")
}

func pulled(t timing) time.Duration { return t.Pulled }

func median(all []timing, of func(timing) time.Duration) time.Duration {
	var out []time.Duration
	for _, t := range all {
		out = append(out, of(t))
	}
	slices.Sort(out)
	return out[len(out)/2]
}

// pull has a new prompt computed and read once, and gives how long the reading took.
func pull(b *testing.B, p, d *process, rnd *rand.Rand) (out timing) {
	prompt := make([]int, costTokens)
	for i := range prompt {
		prompt[i] = rnd.IntN(200)
	}
	r := e2etest.Request{Prompt: prompt, Params: map[string]any{"max_tokens": 1}}
	handle, err := prefill(b, p, r)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Complete(b.Context(), r.With(map[string]any{"kv_transfer_params": handle})); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscan(d.await(b, "took "), &out.Bytes, (*int64)(&out.Blocks), (*int64)(&out.Slot), (*int64)(&out.Pulled)); err != nil {
		b.Fatal(err)
	}
	if out.Bytes != costBytes {
		b.Fatalf("%d bytes were read", out.Bytes)
	}
	return out
}
