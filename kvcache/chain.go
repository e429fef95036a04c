package kvcache

// Chain names the content of tokens block by block: key i is of block i and all before it, over
// the salt. A part of a block at the end has a key too.
func Chain(salt string, tpb int, tokens []int32) []Key {
	keys := make([]Key, 0, ceilDiv(len(tokens), tpb))
	key := root(salt)
	for i := 0; i < len(tokens); i += tpb {
		key = chain(key, tokens[i:min(i+tpb, len(tokens))])
		keys = append(keys, key)
	}
	return keys
}

// Agree is how many tokens two chains of n and m tokens have in common, as far as they tell: up
// to the end of the last block that both name alike (LEASE-23).
func Agree(a []Key, n int, b []Key, m int, tpb int) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return min(i*tpb, n, m)
}
