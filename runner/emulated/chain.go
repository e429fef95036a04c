package emulated

// link stands for all tokens of a sequence up to a position.
type link uint64

// next is the link of token at position pos after the link before it.
func (l link) next(token int32, pos int) link {
	x := mix(uint64(l) + 0x9e3779b97f4a7c15*uint64(token+1))
	return link(mix(x + 0xc2b2ae3d27d4eb4f*uint64(pos+1)))
}

// mix spreads every bit of x over the result.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}

// The likely tokens are those that print, so that text and tokens say the same.
const (
	firstLikely, lastLikely = ' ', '~'
	// unlikely is the logit of all others: a draw at any sensible temperature passes them over.
	unlikely = -100
	// likeliest is the highest logit but that of an end.
	likeliest = 10
	// endOdds: an answer ends at one in so many positions.
	endOdds = 256
)

// logits fills in what follows from a link.
func (l link) logits(out []float32) {
	for t := range out {
		out[t] = unlikely
	}
	for t := firstLikely; t <= lastLikely; t++ {
		u := mix(uint64(l) ^ 0x165667b19e3779f9*uint64(t))
		out[t] = likeliest * float32(u>>40) / (1 << 24)
	}
	if mix(uint64(l)^eos)%endOdds == 0 {
		out[eos] = 2 * likeliest
	}
}
