package reference

import (
	"errors"
	"fmt"
	"slices"
)

// Attach hands over the pools, one a layer group of rank 0, then of rank 1 and so on, each a
// whole number of the rank's blocks long; a rank that holds nothing of a group has none.
func (r *Runner) Attach(pools [][]byte) error {
	groups := len(r.layout.Groups)
	if len(pools) != len(r.ranks)*groups {
		return fmt.Errorf("%d pools for %d layer groups on %d ranks", len(pools), groups, len(r.ranks))
	}
	written := make([][]uint64, groups)
	for i, pool := range pools {
		rank, g := i/groups, i%groups
		blocks, err := r.ranks[rank].blocks(g, pool)
		if err == nil && blocks > 0 && written[g] != nil && len(written[g]) != blocks {
			err = fmt.Errorf("%d blocks, but %d on the ranks before", blocks, len(written[g]))
		}
		if err != nil {
			return fmt.Errorf("rank %d: pool of layer group %d: %w", rank, g, err)
		}
		if blocks > 0 {
			written[g] = make([]uint64, blocks)
		}
	}
	for i := range r.ranks {
		r.ranks[i].pools = slices.Clone(pools[i*groups : (i+1)*groups])
	}
	r.written = written
	return nil
}

// blocks is how many blocks of layer group g a pool holds, 0 if the rank has none.
func (k *rank) blocks(g int, pool []byte) (int, error) {
	size := k.blockBytes[g]
	switch {
	case size == 0 && len(pool) == 0:
		return 0, nil
	case size == 0:
		return 0, errors.New("this rank holds nothing of the group and takes no pool for it")
	case len(pool) == 0 || len(pool)%size != 0:
		return 0, fmt.Errorf("%d bytes are not a whole number of blocks of %d", len(pool), size)
	}
	return len(pool) / size, nil
}

// Close ends the runner's threads and lets go of the pools.
func (r *Runner) Close() error {
	if !r.closed {
		r.closed = true
		r.written = nil
		for i := range r.ranks {
			r.ranks[i].pools = nil
		}
		r.crew.close()
	}
	return nil
}
