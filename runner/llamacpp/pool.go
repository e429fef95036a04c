//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import "kvferry/kvcache"

// blocks is how many the pool holds.
func (r *rows) blocks() int { return len(r.pool) / r.layout.BlockBytes(0) }

// row appends all that the blocks have of one position to buf[:0].
func (r *rows) row(buf []byte, t kvcache.BlockTable, pos int) []byte {
	buf = buf[:0]
	r.each(t, pos, pos+1, func(_, _, _, block, _, size int) {
		buf = append(buf, r.pool[block:block+size]...)
	})
	return buf
}
