package kvcache

import "fmt"

// Demand is what a request needs of the pools, in tokens.
type Demand struct {
	// Prompt is the prompt's length.
	Prompt int
	// Tokens is the most tokens whose KV the request will ever store, the prompt included.
	Tokens int
	// Received: the prompt's KV is not computed here but arrives, so a window group needs
	// none of the blocks that are stale when the prompt ends.
	Received bool
}

// Reserve is the pool manager that takes all that a request will need when it is admitted,
// so an admitted request never waits for a block (PIPE-07).
type Reserve struct {
	layout Layout
	pools  []*Pool
}

// NewReserve makes a manager with blocks[g] blocks in layer group g.
func NewReserve(layout Layout, blocks []int) (*Reserve, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	if len(blocks) != len(layout.Groups) {
		return nil, fmt.Errorf("kvcache: %d pool sizes for %d layer groups", len(blocks), len(layout.Groups))
	}
	r := &Reserve{layout: layout}
	for g, n := range blocks {
		if n < 1 {
			return nil, fmt.Errorf("kvcache: pool of layer group %d has %d blocks: want at least 1", g, n)
		}
		r.pools = append(r.pools, NewPool(n))
	}
	return r, nil
}

// span is the logical blocks that group g needs.
func (r *Reserve) span(g int, d Demand) Span {
	s := Span{0, r.layout.TotalBlocks(d.Tokens)}
	if d.Received {
		s.Start = StaleEnd(d.Prompt, r.layout.Groups[g].Window, r.layout.BlockTokens)
	}
	return s
}

// Fits says whether the demand could ever be met, with nobody else in the pools.
func (r *Reserve) Fits(d Demand) error {
	for g, p := range r.pools {
		if n := r.span(g, d).Len(); n > p.Total() {
			return fmt.Errorf("%d tokens need %d blocks of layer group %d, which has %d", d.Tokens, n, g, p.Total())
		}
	}
	return nil
}

// Take reserves the demand in every group, or nothing. It gives one table a group.
func (r *Reserve) Take(d Demand) ([]BlockTable, bool) {
	for g, p := range r.pools {
		if r.span(g, d).Len() > p.Free() {
			return nil, false
		}
	}
	tables := make([]BlockTable, len(r.pools))
	for g, p := range r.pools {
		s := r.span(g, d)
		blocks, _ := p.Take(s.Len())
		tables[g] = BlockTable{First: s.Start, Blocks: blocks}
	}
	return tables, true
}

// Give takes back what Take gave.
func (r *Reserve) Give(tables []BlockTable) {
	for g, t := range tables {
		r.pools[g].Give(t.Blocks)
	}
}

// Count is the number of blocks and of free blocks over all groups.
func (r *Reserve) Count() (total, free int) {
	for _, p := range r.pools {
		total += p.Total()
		free += p.Free()
	}
	return total, free
}
