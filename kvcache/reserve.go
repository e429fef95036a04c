package kvcache

// Reserve is the manager that takes all that a request will ever need when it is admitted, so
// an admitted request never waits for a block (PIPE-07).
type Reserve struct{ store }

// NewReserve makes a manager with blocks[g] blocks in layer group g.
func NewReserve(layout Layout, blocks []int, o Options) (*Reserve, error) {
	s, err := newStore(layout, blocks, o)
	if err != nil {
		return nil, err
	}
	return &Reserve{s}, nil
}

// Admit is of Manager.
func (r *Reserve) Admit(d Demand, tokens []int32) (*Holding, bool) {
	return r.admit(d, r.find(d, tokens), func(int) int { return d.Tokens })
}

// Extend is of Manager: everything is there already.
func (r *Reserve) Extend(*Holding, int, int) bool { return true }
