package kvcache

// Span is the half-open range [Start,End) of a request's logical blocks.
type Span struct{ Start, End int }

// Len is the number of blocks in the span; a span whose end is not past its start has none.
func (s Span) Len() int { return max(0, s.End-s.Start) }

// Intersect is what two spans share.
func (s Span) Intersect(o Span) Span {
	return Span{max(s.Start, o.Start), min(s.End, o.End)}
}

// Chunk is what one scheduler step computed of a prompt: tokens [Start,End). The scheduler
// cuts it where it likes; only ChunkSpan turns it into blocks.
type Chunk struct {
	Start, End int
	// First: the chunk begins where the computing began, at 0 or at the end of a prefix hit.
	First bool
	// Last: nothing of the prompt is left to compute.
	Last bool
}

// ChunkSpan is the one place where chunk geometry is decided (PIPE-03). It gives the blocks
// that leave after chunk c of a prompt of promptLen tokens, when blocks [0,sent) have left
// already, and whether a slice is due at all (PIPE-04): a chunk that completes no block sends
// nothing and its blocks travel with the next, but the last chunk always sends.
//
// Both bounds round down, so that consecutive chunks tile block space and a block leaves only
// when it is filled; the last chunk rounds up, as nothing follows to carry its tail. The first
// chunk starts at block 0, for no other will carry a reused prefix. After a preemption the
// cursor may be behind what was sent: that is not sent again.
func ChunkSpan(c Chunk, promptLen, tpb, sent int) (Span, bool) {
	start := c.Start / tpb
	if c.First {
		start = 0
	}
	end := c.End / tpb
	if c.Last {
		end = ceilDiv(c.End, tpb)
	}
	total := ceilDiv(promptLen, tpb)
	s := Span{min(max(start, sent), total), min(end, total)}
	if s.Len() > 0 {
		return s, true
	}
	return Span{s.Start, s.Start}, c.Last
}

// StaleEnd is the first block that a window group still needs to decode a prompt of promptLen
// tokens: every position of an earlier block is out of the next token's window (PIPE-08). It
// depends on the whole prompt, never on a chunk's extent. Window 0 needs all blocks.
func StaleEnd(promptLen, window, tpb int) int {
	if window == 0 {
		return 0
	}
	return max(0, (promptLen+1-window)/tpb)
}

// Project picks the blocks of span out of a resident suffix: list holds the logical blocks
// [residentEnd-len(list), residentEnd). It intersects ranges, so a list that does not reach
// the span gives an empty result and never the wrong blocks (PIPE-05).
func Project(list []BlockID, residentEnd int, span Span) []BlockID {
	resident := Span{residentEnd - len(list), residentEnd}
	s := resident.Intersect(span)
	if s.Len() == 0 {
		return nil
	}
	return list[s.Start-resident.Start : s.End-resident.Start]
}

// Capped is the table's resident suffix as it stands at chunkEnd: a pool that reserves the
// whole prompt holds blocks that are not computed yet, and those are cut off before anything
// else is done with the list (PIPE-07). Source lists are then projected with resident end
// chunkEnd (PIPE-06).
func (t BlockTable) Capped(chunkEnd int) BlockTable {
	n := min(max(0, chunkEnd-t.First), len(t.Blocks))
	return BlockTable{First: t.First, Blocks: t.Blocks[:n]}
}
