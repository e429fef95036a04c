package kvcache

// Grow is the manager that takes blocks as they are needed, and gives up those that leave a
// layer group's window (PIPE-07). A request can find the pools short after it was admitted;
// then another one must give way.
type Grow struct {
	store
	chunk int
}

// NewGrow makes a manager with blocks[g] blocks in layer group g.
func NewGrow(layout Layout, blocks []int, o Options) (*Grow, error) {
	s, err := newStore(layout, blocks, o)
	if err != nil {
		return nil, err
	}
	return &Grow{s, o.Chunk}, nil
}

// Fits is of Manager. A window group never holds more than its window and one chunk. What
// arrived can be lost to another request, and is then computed here like any prompt.
func (m *Grow) Fits(d Demand) error { return m.fits(d, 0) }

// fits says whether the demand could be met if spare blocks of each group were held for
// something else.
func (m *Grow) fits(d Demand, spare int) error {
	d.Arrives = 0
	for g, p := range m.pools {
		need := m.span(g, d, 0).Len()
		if w := m.layout.Groups[g].Window; w > 0 && m.chunk > 0 {
			need = min(need, m.layout.TotalBlocks(w+m.chunk)+1)
		}
		if need > p.Total()-spare {
			return shortPool(d, need, g, p)
		}
	}
	return nil
}

// Admit is of Manager. A prompt that is computed here begins with one block behind its hit;
// one that arrives needs its whole final window at once, because its receive is posted once.
func (m *Grow) Admit(d Demand, tokens []int32) (*Holding, bool) {
	found := m.find(d, tokens)
	if whole := found.length / m.layout.BlockTokens; whole < len(found.path) && d.Arrives < d.Prompt && m.fits(d, 1) != nil {
		// The block that is to be copied is held until the first pass, which could then never
		// have all the blocks that it needs.
		found = m.index.whole(m.layout, found.path[:whole])
	}
	return m.admit(d, found, func(cached int) int {
		return max(d.Arrives, min(cached+1, d.Prompt))
	})
}

// Extend is of Manager.
func (m *Grow) Extend(h *Holding, start, end int) bool {
	for g, p := range m.pools {
		t := &h.Tables[g]
		stale := StaleEnd(start, m.layout.Groups[g].Window, m.layout.BlockTokens) // 0 without a window
		if n := min(stale-t.First, len(t.Blocks)); n > 0 {
			p.Give(t.Blocks[:n])
			t.First, t.Blocks = t.First+n, t.Blocks[n:]
		}
	}
	return m.grow(h, end)
}
