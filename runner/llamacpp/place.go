package llamacpp

import "kvferry/kvcache"

// place is where a layer is in the layout: its group, and its number in that.
type place struct{ group, layer int }

// put writes K (kv 0) or V (kv 1) rows of one layer into the blocks: row(i) is that of position first+i.
func (r *rows) put(p place, kv int, t kvcache.BlockTable, first, n int, row func(i int) []byte) {
	pool, tpb, size, head := r.pools[p.group], r.layout.BlockTokens, r.layout.RowBytes(), r.layout.HeadBytes()
	layer, block := r.layout.HeadOffset(p.layer, kv, 0), r.layout.BlockBytes(p.group)
	for i := range n {
		pos := first + i
		at := int(t.Block(pos/tpb))*block + layer + pos%tpb*size
		for from := row(i); len(from) > 0; from = from[size:] {
			copy(pool[at:at+size], from)
			at += head
		}
	}
}

// get is put the other way: from the blocks to the rows.
func (r *rows) get(p place, kv int, t kvcache.BlockTable, first, n int, row func(i int) []byte) {
	pool, tpb, size, head := r.pools[p.group], r.layout.BlockTokens, r.layout.RowBytes(), r.layout.HeadBytes()
	layer, block := r.layout.HeadOffset(p.layer, kv, 0), r.layout.BlockBytes(p.group)
	for i := range n {
		pos := first + i
		at := int(t.Block(pos/tpb))*block + layer + pos%tpb*size
		for to := row(i); len(to) > 0; to = to[size:] {
			copy(to, pool[at:at+size])
			at += head
		}
	}
}
