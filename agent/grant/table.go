// Package grant keeps an agent's receive epochs: who may write where, who is writing now,
// and when a revoked epoch is quiet.
package grant

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"kvferry/agent"
	"kvferry/wire"
)

// Table is safe for concurrent use. H is whatever writes: a connection.
type Table[H comparable] struct {
	mu     sync.Mutex
	epochs map[uint64]*receive[H]
	// quiet is told, outside the lock, of each revoked epoch once nobody writes it.
	quiet func(epoch uint64)
}

// receive is one epoch.
type receive[H comparable] struct {
	peer    wire.Life
	ranges  []wire.Range // sorted, none touching the next
	holders map[H]int    // frames being received, by writer
	revoked bool
}

// New makes a table. quiet is called for each revoked epoch once no byte of it can land.
func New[H comparable](quiet func(epoch uint64)) *Table[H] {
	return &Table[H]{epochs: make(map[uint64]*receive[H]), quiet: quiet}
}

// Open grants. An epoch that is open already, or still being revoked, is not granted again.
func (t *Table[H]) Open(epoch uint64, peer wire.Life, ranges []agent.Desc) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.epochs[epoch]; ok {
		return fmt.Errorf("epoch %d is granted already", epoch)
	}
	t.epochs[epoch] = &receive[H]{peer: peer, ranges: merge(ranges), holders: make(map[H]int)}
	return nil
}

// Enter asks whether a peer may write these ranges now. Nil means that it may, until Leave.
func (t *Table[H]) Enter(epoch uint64, peer wire.Life, ranges []wire.Range, holder H) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.epochs[epoch]
	switch {
	case !ok:
		return fmt.Errorf("epoch %d is not granted, or no longer", epoch)
	case r.revoked:
		return fmt.Errorf("epoch %d is revoked", epoch)
	case r.peer != peer:
		return fmt.Errorf("epoch %d is granted to another life", epoch)
	}
	for _, w := range ranges {
		if !r.covers(w) {
			return fmt.Errorf("bytes %d+%d of region %d are outside the grant of epoch %d",
				w.Offset, w.Length, w.Region, epoch)
		}
	}
	r.holders[holder]++
	return nil
}

// Leave ends what Enter allowed.
func (t *Table[H]) Leave(epoch uint64, holder H) {
	t.mu.Lock()
	r := t.epochs[epoch]
	if r.holders[holder]--; r.holders[holder] == 0 {
		delete(r.holders, holder)
	}
	done := r.revoked && len(r.holders) == 0
	if done {
		delete(t.epochs, epoch)
	}
	t.mu.Unlock()
	if done {
		t.quiet(epoch)
	}
}

// Revoke closes an epoch: nobody can Enter it any more. It says whether somebody is still
// inside; quiet is told at once or when the last of them leaves.
func (t *Table[H]) Revoke(epoch uint64) (busy bool) {
	t.mu.Lock()
	r, ok := t.epochs[epoch]
	if ok && len(r.holders) > 0 {
		r.revoked = true
		t.mu.Unlock()
		return true
	}
	delete(t.epochs, epoch)
	t.mu.Unlock()
	t.quiet(epoch)
	return false
}

// Holders is who still writes a revoked epoch.
func (t *Table[H]) Holders(epoch uint64) []H {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.epochs[epoch]
	if !ok || !r.revoked {
		return nil
	}
	var hs []H
	for h := range r.holders {
		hs = append(hs, h)
	}
	return hs
}

// covers says whether one of the merged ranges holds all of w.
func (r *receive[H]) covers(w wire.Range) bool {
	i, found := slices.BinarySearchFunc(r.ranges, w, compare)
	if !found {
		i--
	}
	if i < 0 || r.ranges[i].Region != w.Region {
		return false
	}
	g := r.ranges[i]
	return w.Offset-g.Offset <= g.Length && w.Length <= g.Length-(w.Offset-g.Offset)
}

// compare orders ranges by where they start.
func compare(a, b wire.Range) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Offset, b.Offset))
}

// merge sorts ranges and joins those that touch. A range that ends past 2^64 is cut there:
// no region is that long.
func merge(ranges []agent.Desc) []wire.Range {
	sorted := make([]wire.Range, 0, len(ranges))
	for _, d := range ranges {
		d.Length = min(d.Length, ^uint64(0)-d.Offset)
		sorted = append(sorted, wire.Range{Region: uint32(d.Region), Offset: d.Offset, Length: d.Length})
	}
	slices.SortFunc(sorted, compare)
	merged := sorted[:0]
	for _, r := range sorted {
		if i := len(merged) - 1; i >= 0 && merged[i].Region == r.Region && r.Offset <= merged[i].Offset+merged[i].Length {
			merged[i].Length = max(merged[i].Length, r.Offset+r.Length-merged[i].Offset)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// ErrGrace is why a connection that still writes a revoked epoch is closed.
func ErrGrace(epoch uint64) error {
	return fmt.Errorf("epoch %d: %w", epoch, agent.ErrRevokeGrace)
}
