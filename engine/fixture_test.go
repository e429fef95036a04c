package engine

import (
	"kvferry/kvcache"
	"kvferry/wire"
)

// life names a process by one letter.
func life(name string) (l wire.Life) {
	copy(l[:], name)
	return l
}

// layoutOf has a layer group a window; an element takes 2 bytes and a head has 4.
func layoutOf(tpb int, windows ...int) kvcache.Layout {
	l := kvcache.Layout{BlockTokens: tpb, KVHeads: 1, HeadDim: 4, DType: kvcache.F16}
	for i, w := range windows {
		l.Groups = append(l.Groups, kvcache.LayerGroup{Window: w, Layers: []int{i}})
	}
	return l
}

// tokensOf is a prompt of n tokens.
func tokensOf(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i + 1)
	}
	return tokens
}
