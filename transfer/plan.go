package transfer

import (
	"fmt"

	"kvferry/kvcache"
)

// GroupCopy copies Src[i] to Dst[i], whole blocks of one layer group.
type GroupCopy struct {
	Group    int
	Src, Dst []kvcache.BlockID
}

// Destination is what a registration says of the receiver's memory.
type Destination struct {
	// Blocks has a resident suffix a layer group, ending at the prompt's last block.
	Blocks [][]kvcache.BlockID
	// Start is the number of prompt tokens that the receiver has already (PIPE-09).
	Start int
}

// due is the blocks of group g that a slice over span must bring: those that the receiver's
// final window needs (PIPE-08), that it does not hold already, and that its list reaches. A
// receiver that holds the whole prompt needs no block, not even a partial last one. A recurrent
// state is due with the last slice, when it has its final value (PIPE-31).
func (d Destination) due(l kvcache.Layout, promptLen, g int, span kvcache.Span) kvcache.Span {
	total := l.TotalBlocks(promptLen)
	if l.Groups[g].Recurrent() {
		if span.End < total || len(d.Blocks[g]) == 0 {
			return kvcache.Span{}
		}
		return kvcache.Span{Start: 0, End: 1}
	}
	held := d.Start / l.BlockTokens
	if d.Start >= promptLen {
		held = total
	}
	first := max(kvcache.StaleEnd(promptLen, l.Groups[g].Window, l.BlockTokens), held, total-len(d.Blocks[g]))
	return span.Intersect(kvcache.Span{Start: first, End: total})
}

// end is where group g's list ends, in logical blocks.
func (d Destination) end(l kvcache.Layout, promptLen, g int) int {
	if l.Groups[g].Recurrent() {
		return len(d.Blocks[g])
	}
	return l.TotalBlocks(promptLen)
}

// Plan says which blocks one slice copies. Source lists are capped at the span's end, which is
// where the computing has come to, before anything else is done with them; both lists are
// projected on what is due (PIPE-05, PIPE-06). A block that is due and not resident on the
// source is an error: it would be missing on the receiver.
func Plan(l kvcache.Layout, promptLen int, span kvcache.Span, src []kvcache.BlockTable, dst Destination) ([]GroupCopy, error) {
	var out []GroupCopy
	for g := range l.Groups {
		due := dst.due(l, promptLen, g, span)
		if due.Len() == 0 {
			continue
		}
		capped := src[g]
		if !l.Groups[g].Recurrent() {
			capped = capped.Capped(span.End)
		}
		c := GroupCopy{
			Group: g,
			Src:   kvcache.Project(capped.Blocks, capped.End(), due),
			Dst:   kvcache.Project(dst.Blocks[g], dst.end(l, promptLen, g), due),
		}
		if len(c.Src) != due.Len() {
			return nil, fmt.Errorf("layer group %d: blocks [%d,%d) are due and [%d,%d) are resident",
				g, due.Start, due.End, capped.First, capped.End())
		}
		out = append(out, c)
	}
	return out, nil
}

// Arrived is what the slice over span brought: Plan as its receiver sees it, without sources.
func Arrived(l kvcache.Layout, promptLen int, span kvcache.Span, dst Destination) []GroupCopy {
	var out []GroupCopy
	for g := range l.Groups {
		if due := dst.due(l, promptLen, g, span); due.Len() > 0 {
			out = append(out, GroupCopy{Group: g, Dst: kvcache.Project(dst.Blocks[g], dst.end(l, promptLen, g), due)})
		}
	}
	return out
}

// PlanBytes is the size of what a plan copies.
func PlanBytes(l kvcache.Layout, plan []GroupCopy) uint64 {
	var n uint64
	for _, c := range plan {
		n += uint64(len(c.Src)) * uint64(l.BlockBytes(c.Group))
	}
	return n
}
