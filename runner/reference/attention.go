package reference

import (
	"encoding/binary"
	"math"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/kernel"
)

// store normalises and turns queries and keys, scales queries, and writes keys and values
// into the blocks.
func (p *pass) store(_, item int) {
	c := p.r.cfg
	d := c.headDim
	from, to := p.chunk(item)
	for i := from; i < to; i++ {
		row := p.qkv.row(i)
		for h := range c.heads + c.kvHeads {
			v := row[h*d : (h+1)*d]
			norm := p.l.qNorm
			if h >= c.heads {
				norm = p.l.kNorm
			}
			if norm != nil {
				rmsNorm(v, v, norm, c.eps)
			}
			p.angle.turn(v, i, !c.gemma())
			if h < c.heads {
				for k := range v {
					v[k] *= c.queryScale
				}
			}
		}
		p.storeRow(i, row[c.heads*d:])
	}
}

// storeRow writes one row's keys and values, which lie side by side in kv.
func (p *pass) storeRow(i int, kv []float32) {
	lay := &p.r.layout
	d := lay.HeadDim
	block, slot := p.r.blockOf(p.batch[p.work[i]].Tables[p.group], int(p.pos[i]))
	pool := p.r.pools[p.group][block*lay.BlockBytes(p.group):]
	for h := range 2 * lay.KVHeads {
		at := lay.HeadOffset(p.inner, h/lay.KVHeads, h%lay.KVHeads) + slot*d*lay.DType.Size()
		src := kv[h*d : (h+1)*d]
		if lay.DType == kvcache.F16 {
			kernel.FloatsToHalves(pool[at:], src)
			continue
		}
		for k, v := range src {
			binary.LittleEndian.PutUint32(pool[at+4*k:], math.Float32bits(v))
		}
	}
}

// scratch is one worker's room for attention over one KV head.
type scratch struct {
	keys   []float32 // packed in panels of 16 positions: [panel][dim][16]
	values []float32 // [position][dim, padded]
	stored []float32 // [token of a block][dim], on its way to keys or values
	query  []float32 // [token of the tile][head of the group][dim]
	scores []float32 // [token of the tile][head of the group][position, padded]
	result []float32 // [head of the group][dim, padded]
}

// tileRows is about how many query rows share one walk over the keys.
const tileRows = 8

// attend computes attention for one KV head of one work: item counts heads within works.
func (p *pass) attend(worker, item int) {
	c := p.r.cfg
	w := &p.batch[item/c.kvHeads]
	head := item % c.kvHeads
	first := 0 // row of the work's first token
	for i := range item / c.kvHeads {
		first += len(p.batch[i].Tokens)
	}
	s := &p.scratch[worker]
	window := p.r.layout.Groups[p.group].Window
	base := visibleFrom(w.Start, window)
	p.gather(s, w, head, base, w.Start+len(w.Tokens))
	group := c.heads / c.kvHeads
	tile := max(1, tileRows/group)
	for t := 0; t < len(w.Tokens); t += tile {
		p.attendTile(s, w, first+t, min(tile, len(w.Tokens)-t), head, base, window)
	}
}

// gather reads the keys and values of positions [base,end) of one head as float32.
func (p *pass) gather(s *scratch, w *runner.Work, head, base, end int) {
	lay := &p.r.layout
	d, ld := lay.HeadDim, kernel.Padded(lay.HeadDim)
	n := end - base
	s.keys = grow(s.keys, kernel.Padded(n)*d)
	s.values = grow(s.values, n*ld)
	tpb := lay.BlockTokens
	s.stored = grow(s.stored, min(tpb, n)*d)
	for pos := base; pos < end; {
		block, slot := p.r.blockOf(w.Tables[p.group], pos)
		count := min(tpb-slot, end-pos)
		pool := p.r.pools[p.group][block*lay.BlockBytes(p.group):]
		keys, values := pool[lay.HeadOffset(p.inner, 0, head):], pool[lay.HeadOffset(p.inner, 1, head):]
		skip := slot * d * lay.DType.Size()
		widen(s.stored[:count*d], keys[skip:], lay.DType)
		packKeys(s.keys, s.stored[:count*d], d, pos-base)
		widen(s.stored[:count*d], values[skip:], lay.DType)
		for k := range count {
			copy(s.values[(pos-base+k)*ld:], s.stored[k*d:(k+1)*d])
		}
		pos += count
	}
}

// packKeys puts rows of d elements, a row a position, into panels from position at on.
func packKeys(panels, rows []float32, d, at int) {
	for k := 0; k < len(rows); k += d {
		col := panels[at/16*16*d+at%16:]
		for i, v := range rows[k : k+d] {
			col[i*16] = v
		}
		at++
	}
}

// widen reads len(dst) stored elements.
func widen(dst []float32, src []byte, t kvcache.DType) {
	if t == kvcache.F16 {
		kernel.HalvesToFloats(dst, src)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// attendTile computes n tokens, whose rows begin at first, for the query heads of one KV head.
func (p *pass) attendTile(s *scratch, w *runner.Work, first, n, head, base, window int) {
	c := p.r.cfg
	d, ld := c.headDim, kernel.Padded(c.headDim)
	group := c.heads / c.kvHeads
	lo := visibleFrom(int(p.pos[first]), window) - base
	hi := int(p.pos[first+n-1]) + 1 - base
	fromPanel, toPanel := lo/16, (hi+15)/16
	stride := kernel.Padded(hi)
	s.query = grow(s.query, n*group*d)
	s.scores = grow(s.scores, n*group*stride)
	s.result = grow(s.result, group*ld)
	for t := range n {
		copy(s.query[t*group*d:(t+1)*group*d], p.qkv.row(first + t)[head*group*d:])
	}
	for panel := fromPanel; panel < toPanel; panel++ {
		kernel.MulRows(s.scores[panel*16:], stride, s.query, d, s.keys[panel*16*d:], 16, n*group, d, 16)
	}
	for t := range n {
		pos := int(p.pos[first+t])
		lo, hi := visibleFrom(pos, window)-base, pos+1-base
		rows := s.scores[t*group*stride:]
		for h := range group {
			softmax(rows[h*stride+lo : h*stride+hi])
		}
		kernel.MulRows(s.result, ld, rows[lo:], stride, s.values[lo*ld:], ld, group, hi-lo, d)
		att := p.att.row(first + t)[head*group*d:]
		for h := range group {
			copy(att[h*d:(h+1)*d], s.result[h*ld:])
		}
	}
}

// softmax turns scores into weights that sum to one.
func softmax(x []float32) {
	most := x[0]
	for _, v := range x {
		most = max(most, v)
	}
	for i := range x {
		x[i] -= most
	}
	kernel.Exp(x)
	// Eight interleaved sums, counted from the first position that the token sees.
	var lanes [8]float32
	for i, v := range x {
		lanes[i&7] += v
	}
	sum := ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
	inv := 1 / sum
	for i := range x {
		x[i] *= inv
	}
}

// grow gives a buffer of at least n elements, with room to spare so that a sequence that
// gets longer by a token seldom needs a new one.
func grow(b []float32, n int) []float32 {
	if n > len(b) {
		return make([]float32, n+n/2)
	}
	return b
}
