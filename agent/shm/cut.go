//go:build linux

package shm

import "kvferry/agent"

// wordBytes is the size of a lease slot, which is loaded and stored whole, and never merged with
// what is beside it.
const wordBytes = 8

// cutter cuts a transfer into parts, each good for one record.
type cutter struct {
	t *agent.Transfer
	// read says that the bytes come from Remote.
	read  bool
	at    int    // the pair to go on with
	taken uint64 // bytes of it that went before
}

// next appends the pairs of the next part to pairs, and says how many bytes it has and whether
// it is the last.
func (c *cutter) next(pairs []pair, maxRanges int, maxBytes uint64) (_ []pair, bytes uint64, last bool) {
	for c.at < len(c.t.LocalIdx) && len(pairs) < maxRanges && bytes < maxBytes {
		local, remote := &c.t.Local[c.t.LocalIdx[c.at]], &c.t.Remote[c.t.RemoteIdx[c.at]]
		n := min(local.Length-c.taken, maxBytes-bytes)
		if n > 0 {
			pairs = c.add(pairs, local, remote, n)
		}
		bytes += n
		if c.taken += n; c.taken == local.Length {
			c.at, c.taken = c.at+1, 0
		}
	}
	return pairs, bytes, c.at == len(c.t.LocalIdx)
}

// add appends a pair, or lengthens the last one where both its ends go on.
func (c *cutter) add(pairs []pair, local, remote *agent.Desc, n uint64) []pair {
	from, to := local, remote
	if c.read {
		from, to = remote, local
	}
	p := pair{
		fromRegion: uint32(from.Region), toRegion: uint32(to.Region),
		from: from.Offset + c.taken, to: to.Offset + c.taken, length: n,
	}
	if i := len(pairs) - 1; i >= 0 && local.Length > wordBytes {
		q := &pairs[i]
		if q.length > wordBytes && q.fromRegion == p.fromRegion && q.toRegion == p.toRegion &&
			q.from+q.length == p.from && q.to+q.length == p.to {
			q.length += n
			return pairs
		}
	}
	return append(pairs, p)
}

// hasWords says whether a transfer moves words, before which what stands before them in the list
// must have been copied.
func hasWords(t *agent.Transfer) bool {
	for _, i := range t.LocalIdx {
		if t.Local[i].Length <= wordBytes {
			return true
		}
	}
	return false
}
