// Package reference runs Llama-family models in Go, over the paged KV blocks
// themselves: architectures gemma3 and llama from GGUF files, weights and sums in
// float32, KV as f16 or f32, read as stored.
//
// It is batch-invariant: the bits of a token's logits and KV depend on the tokens
// before it and on nothing else, neither on what shares its batch, nor on where its
// prompt was cut, nor on which physical blocks it has, nor on GOMAXPROCS. Each
// sum is taken in one order that only the token's own position and window decide. The
// sums that tensor-parallel ranks share, the attention's output projection
// and the feed-forward's down projection, are (p0+p1)+(p2+p3), where p0 to p3
// are the partial sums over quarters of the query heads and of the feed-forward
// columns. Where n of them cannot be quartered evenly, quarter i ends before
// number floor((i+1)*n/4).
//
// A model can be cut into ranks, all of one process: 1, 2 or 4 tensor-parallel ranks, each
// with whole quarters of those sums, times any number of pipeline stages, each with some of
// the layers, as kvcache.Layout.Shards cuts. A rank computes its own query heads from pools
// of its own, which no other rank touches; where there are more ranks than KV heads, those
// that share a head each keep its keys and values. The bits are the same however the
// model is cut.
//
// Layers that see the same window form one layer group. Groups are in the order of
// their first layers.
package reference
