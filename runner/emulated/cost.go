package emulated

import (
	"time"

	"kvferry/runner"
)

// cost is what a pass asks of a device.
type cost struct{ flops, bytes float64 }

// costs counts a pass: the weights are read once, and used by each token for two operations a
// weight; attention takes four operations for each query head, element and visible position
// of a token, and reads each sequence's visible KV once.
func (r *Runner) costs(batch []runner.Work) cost {
	c := cost{bytes: 2 * r.m.params}
	for _, w := range batch {
		c.flops += 2 * r.m.params * float64(len(w.Tokens))
		for g, group := range r.layout.Groups {
			layers := float64(len(group.Layers))
			seen := visibleSum(w.Start, len(w.Tokens), group.Window)
			c.flops += 4 * layers * float64(r.m.heads*r.m.headDim) * seen
			last := w.Start + len(w.Tokens)
			c.bytes += float64(last-visibleFrom(w.Start, group.Window)) * r.tokenBytes(g)
		}
	}
	return c
}

// tokenBytes is the KV of one token in one group.
func (r *Runner) tokenBytes(g int) float64 {
	return float64(r.layout.BlockBytes(g)) / float64(r.layout.BlockTokens)
}

// takes is how long a pass lasts.
func (d device) takes(c cost) time.Duration {
	s := max(c.flops/(d.flops*d.compute), c.bytes/(d.bandwidth*d.traffic))
	return d.pass + time.Duration(s*float64(time.Second))
}

// visibleFrom is the first position that a token at pos sees.
func visibleFrom(pos, window int) int {
	if window == 0 {
		return 0
	}
	return max(0, pos-window+1)
}

// visibleSum adds up how many positions each of n tokens from start on sees, itself included.
func visibleSum(start, n, window int) float64 {
	sum := func(from, to int) float64 { // of pos+1 for each pos
		return float64(to-from) * float64(from+to+1) / 2
	}
	end := start + n
	if window == 0 || end <= window {
		return sum(start, end)
	}
	bend := max(start, min(end, window))
	return sum(start, bend) + float64(end-bend)*float64(window)
}
