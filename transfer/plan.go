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

// Plan says which blocks one slice copies: those of span that the receiver's final window
// needs (PIPE-08), that it does not hold already, and that its list reaches. A receiver that
// holds the whole prompt needs no block, not even a partial last one. Source lists are
// capped at the span's end, which is where the computing has come to, before the window trim;
// both lists are projected on what is left (PIPE-05, PIPE-06). A block that is due and not
// resident on the source is an error: it would be missing on the receiver.
func Plan(l kvcache.Layout, promptLen int, span kvcache.Span, src []kvcache.BlockTable, dst Destination) ([]GroupCopy, error) {
	total := l.TotalBlocks(promptLen)
	held := dst.Start / l.BlockTokens
	if dst.Start >= promptLen {
		held = total
	}
	var out []GroupCopy
	for g, group := range l.Groups {
		first := max(kvcache.StaleEnd(promptLen, group.Window, l.BlockTokens), held)
		due := span.Intersect(kvcache.Span{Start: max(first, total-len(dst.Blocks[g])), End: total})
		if due.Len() == 0 {
			continue
		}
		capped := src[g].Capped(span.End)
		c := GroupCopy{
			Group: g,
			Src:   kvcache.Project(capped.Blocks, capped.End(), due),
			Dst:   kvcache.Project(dst.Blocks[g], total, due),
		}
		if len(c.Src) != due.Len() {
			return nil, fmt.Errorf("layer group %d: blocks [%d,%d) are due and [%d,%d) are resident",
				g, due.Start, due.End, capped.First, capped.End())
		}
		out = append(out, c)
	}
	return out, nil
}

// PlanBytes is the size of what a plan copies.
func PlanBytes(l kvcache.Layout, plan []GroupCopy) uint64 {
	var n uint64
	for _, c := range plan {
		n += uint64(len(c.Src)) * uint64(l.BlockBytes(c.Group))
	}
	return n
}
