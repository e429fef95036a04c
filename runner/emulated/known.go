package emulated

// known is what the runner remembers of one layer group's blocks: which rows it has written
// or verified, and for which chain.
type known struct {
	tokens int // of a block
	blocks []knownBlock
	links  []link  // [block][token]
	token  []int32 // likewise
}

// knownBlock: rows [from,to) are known, the first of them after the link before.
type knownBlock struct {
	before   link
	from, to int
}

func newKnown(blocks, tokens int) known {
	return known{
		tokens: tokens, blocks: make([]knownBlock, blocks),
		links: make([]link, blocks*tokens), token: make([]int32, blocks*tokens),
	}
}

// at gives the links and tokens of a block's rows.
func (k *known) at(block int) ([]link, []int32) {
	i := block * k.tokens
	return k.links[i : i+k.tokens], k.token[i : i+k.tokens]
}

// span is the rows of a block that a pass sees, and the link before the first of them if
// that is known, as it is for row 0 of every block but the first that a window reaches.
type span struct {
	number   int // of the logical block
	from, to int
	before   link
	linked   bool
}

// covers says up to which row a block is known from the span's first row on, as part of the
// same chain; 0 is nothing. A link stands for its position too, so the block's place in its
// sequence need not be compared.
func (k *known) covers(block int, s span) int {
	b := k.blocks[block]
	switch {
	case b.to <= s.from || b.from > s.from:
		return 0
	case s.linked && b.before != s.before:
		return 0
	}
	return min(b.to, s.to)
}
