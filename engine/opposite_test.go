package engine_test

import (
	"testing"

	"kvferry/kvcache"
)

// TestOppositeOrders: two engines whose pools hold one request each get the same requests in
// opposite orders. P fills its pool with a request for which D has no room before it has decoded
// the other one, for which P has no room. The finished prefill is evicted and computed again, and
// all end well although no time passes (PIPE-35).
//
// req: PIPE-35
func TestOppositeOrders(t *testing.T) {
	var a arena
	for _, grow := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		for _, reuse := range []bool{false, true} {
			var seen [kindsOfSight]int
			for seed := range uint64(200) {
				c := ferry{
					layout: kvcache.Layout{
						BlockTokens: 4, KVHeads: 1, HeadDim: headDim, DType: kvcache.F16,
						Groups: []kvcache.LayerGroup{{Layers: []int{0}}},
					},
					p:    side{blocks: []int{3}, chunk: 5, pipelined: seed%2 == 0, grow: grow[0], reuse: reuse, slots: 2},
					d:    side{blocks: []int{3}, chunk: 5, grow: grow[1], reuse: reuse, slots: 2},
					seed: seed,
				}
				c.p.parallel = kvcache.Parallel{Tensor: 1, Pipeline: 1}
				c.d.parallel = c.p.parallel
				for i := range c.weights {
					c.weights[i] = 1
				}
				if err := c.opposite(&a, &seen); err != nil {
					t.Fatalf("%v\n%v", err, c)
				}
			}
			if seen[evictedOnP] == 0 || seen[computedAgain] == 0 {
				t.Errorf("grow %v, reuse %v: nothing was evicted and computed again", grow, reuse)
			}
		}
	}
}

// opposite asks P for the first request before the second, and D for the second before the first.
func (c *ferry) opposite(a *arena, seen *[kindsOfSight]int) error {
	return guarded(func() {
		w := newWorld(c, a, seen, quiet)
		first := w.add(ask{tokens: []int32{0, 1, 2, 0, 1, 2, 0, 1, 2}, max: 2})
		second := w.add(ask{tokens: []int32{2, 2, 1, 1, 0, 0, 2, 2, 1, 1}, max: 2})
		w.legs = nil
		w.p.submit(first)
		w.d.submit(second)
		w.p.submit(second)
		w.d.submit(first)
		w.drain()
	})
}
