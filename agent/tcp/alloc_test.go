package tcp_test

import (
	"runtime"
	"testing"

	"kvferry/agent"
	"kvferry/agent/tcp"
)

// Blocks cost no allocation: what transfers cost, and a read's requests, of which there is one for
// 256 of these blocks, is spread over them; for both sides together.
func TestNoAllocationABlock(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*tcp.Agent, agent.Transfer)
		share uint64 // blocks to an allocation, at least
		bytes uint64 // a block, at most
	}{
		"write": {(*tcp.Agent).Write, 200, 4},
		"read":  {(*tcp.Agent).Read, 20, 100},
	} {
		t.Run(name, func(t *testing.T) {
			as := benchPair(t, tcp.Options{Log: quietLog, Bulk: 2})
			const block, rounds = 4 << 10, 4
			parts := permuted(block, 4)
			round(t, as[0], c.start, parts) // what is used again is there
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range rounds {
				round(t, as[0], c.start, parts)
			}
			runtime.ReadMemStats(&after)
			blocks := uint64(rounds * pool / block)
			if n := after.Mallocs - before.Mallocs; n > blocks/c.share {
				t.Errorf("%d allocations for %d blocks", n, blocks)
			}
			if n := (after.TotalAlloc - before.TotalAlloc) / blocks; n > c.bytes {
				t.Errorf("%d bytes are allocated a block", n)
			}
		})
	}
}
