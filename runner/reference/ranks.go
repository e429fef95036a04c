package reference

import (
	"fmt"

	"kvferry/kvcache"
)

// rank is one of the runner's ranks: tensor rank t of stage s is number s*Tensor + t. What
// all ranks have alike (the residual stream, norms, embeddings, logits) is kept once, and
// one stage hands the stream on to the next; the rest is the rank's own.
type rank struct {
	// query and kv are its heads, ffn its columns of the feed-forward, of the whole model's.
	query, kv, ffn kvcache.Span
	shard          kvcache.Shard
	blockBytes     []int // by layer group
	// pools has one pool a layer group. Only this rank reads or writes them.
	pools [][]byte

	qkv buffer // its queries, keys and values
	att buffer // what its attention gives
	act buffer // gate and up; then the activation, in gate's place
	sum buffer // its part of what goes back into the residual stream
}

// group is how many query heads share a KV head on this rank.
func (k *rank) group() int { return k.query.Len() / k.kv.Len() }

// block is the rank's part of a block of layer group g.
func (k *rank) block(g, b int) []byte {
	size := k.blockBytes[g]
	return k.pools[g][b*size : (b+1)*size]
}

// shares are what the tensor ranks of a stage have of each layer, by rank.
type shares struct{ query, kv, ffn []kvcache.Span }

// cut makes the runner's ranks.
func (r *Runner) cut(p kvcache.Parallel) (shares, error) {
	var sh shares
	if p == (kvcache.Parallel{}) {
		p = kvcache.Parallel{Tensor: 1, Pipeline: 1}
	}
	switch p.Tensor {
	case 1, 2, 4:
	default:
		return sh, fmt.Errorf("tensor_parallel_size %d: want 1, 2 or 4, for sums are taken in quarters", p.Tensor)
	}
	shards, err := r.layout.Shards(p)
	if err != nil {
		return sh, err
	}
	switch {
	case r.cfg.heads%p.Tensor != 0:
		return sh, fmt.Errorf("tensor_parallel_size %d: does not divide %d query heads", p.Tensor, r.cfg.heads)
	case r.cfg.ffn < p.Tensor:
		return sh, fmt.Errorf("tensor_parallel_size %d: the feed-forward has %d columns", p.Tensor, r.cfg.ffn)
	}
	for t := range p.Tensor {
		sh.query = append(sh.query, wholeQuarters(r.cfg.heads, p.Tensor, t))
		sh.kv = append(sh.kv, shards[t].Heads)
		sh.ffn = append(sh.ffn, wholeQuarters(r.cfg.ffn, p.Tensor, t))
	}
	for i, s := range shards {
		t := i % p.Tensor
		k := rank{query: sh.query[t], kv: sh.kv[t], ffn: sh.ffn[t], shard: s}
		for g := range r.layout.Groups {
			k.blockBytes = append(k.blockBytes, s.BlockBytes(g))
		}
		r.ranks = append(r.ranks, k)
	}
	r.stages = r.stagesOf(p)
	return sh, nil
}

// stagesOf gives for each layer the ranks of the stage that computes it.
func (r *Runner) stagesOf(p kvcache.Parallel) [][]rank {
	stages := make([][]rank, len(r.place))
	for i := range p.Pipeline {
		stage := r.ranks[i*p.Tensor : (i+1)*p.Tensor]
		for l, at := range r.place {
			if stage[0].shard.Holds(at[0], at[1], stage[0].kv.Start) {
				stages[l] = stage
			}
		}
	}
	return stages
}

// quarters cuts n units of the given size into four, as even as whole units allow: quarter
// i is [bounds[i],bounds[i+1]).
func quarters(n, size int) (bounds [5]int) {
	for i := range bounds {
		bounds[i] = i * n / 4 * size
	}
	return bounds
}

// wholeQuarters is tensor rank t's share of n units.
func wholeQuarters(n, ranks, t int) kvcache.Span {
	bounds := quarters(n, 1)
	return kvcache.Span{Start: bounds[t*4/ranks], End: bounds[(t+1)*4/ranks]}
}
