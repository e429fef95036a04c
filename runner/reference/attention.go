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
	t, piece := p.split(item)
	k := &p.ranks[t]
	c := p.r.cfg
	d, queries := c.headDim, k.query.Len()
	from, to := p.chunk(piece)
	for i := from; i < to; i++ {
		row := k.qkv.row(i)
		for h := range queries + k.kv.Len() {
			v := row[h*d : (h+1)*d]
			norm := p.l.qNorm
			if h >= queries {
				norm = p.l.kNorm
			}
			if norm != nil {
				rmsNorm(v, v, norm, c.eps)
			}
			p.angle.turn(v, i, !c.gemma())
			if h < queries {
				for j := range v {
					v[j] *= c.queryScale
				}
			}
		}
		p.storeRow(k, i, row[queries*d:])
	}
}

// storeRow writes a rank's keys and values of one row, which lie side by side in kv.
func (p *pass) storeRow(k *rank, i int, kv []float32) {
	lay := &p.r.layout
	d, heads := lay.HeadDim, k.kv.Len()
	number, slot := p.r.blockOf(p.batch[p.work[i]].Tables[p.group], int(p.pos[i]))
	block := k.block(p.group, number)
	for h := range 2 * heads {
		at := k.shard.HeadOffset(p.group, p.inner, h/heads, k.kv.Start+h%heads) + slot*lay.RowBytes()
		src := kv[h*d : (h+1)*d]
		if lay.DType == kvcache.F16 {
			kernel.FloatsToHalves(block[at:], src)
			continue
		}
		for j, v := range src {
			binary.LittleEndian.PutUint32(block[at+4*j:], math.Float32bits(v))
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

// attend computes a rank's attention for one of its KV heads and one work: its pieces count
// heads within works.
func (p *pass) attend(worker, item int) {
	t, piece := p.split(item)
	k := &p.ranks[t]
	work, head := piece/k.kv.Len(), piece%k.kv.Len()
	w := &p.batch[work]
	first := 0 // row of the work's first token
	for i := range work {
		first += len(p.batch[i].Tokens)
	}
	s := &p.scratch[worker]
	window := p.r.layout.Groups[p.group].Window
	base := visibleFrom(w.Start, window)
	p.gather(s, k, w, head, base, w.Start+len(w.Tokens))
	tile := max(1, tileRows/k.group())
	for t := 0; t < len(w.Tokens); t += tile {
		p.attendTile(s, k, first+t, min(tile, len(w.Tokens)-t), head, base, window)
	}
}

// gather reads the keys and values of positions [base,end) of one of a rank's heads as
// float32.
func (p *pass) gather(s *scratch, k *rank, w *runner.Work, head, base, end int) {
	lay := &p.r.layout
	d, ld := lay.HeadDim, kernel.Padded(lay.HeadDim)
	n := end - base
	s.keys = grow(s.keys, kernel.Padded(n)*d)
	s.values = grow(s.values, n*ld)
	tpb := lay.BlockTokens
	s.stored = grow(s.stored, min(tpb, n)*d)
	keysAt := k.shard.HeadOffset(p.group, p.inner, 0, k.kv.Start+head)
	valuesAt := k.shard.HeadOffset(p.group, p.inner, 1, k.kv.Start+head)
	for pos := base; pos < end; {
		number, slot := p.r.blockOf(w.Tables[p.group], pos)
		count := min(tpb-slot, end-pos)
		block := k.block(p.group, number)
		skip := slot * lay.RowBytes()
		widen(s.stored[:count*d], block[keysAt+skip:], lay.DType)
		packKeys(s.keys, s.stored[:count*d], d, pos-base)
		widen(s.stored[:count*d], block[valuesAt+skip:], lay.DType)
		for j := range count {
			copy(s.values[(pos-base+j)*ld:], s.stored[j*d:(j+1)*d])
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

// attendTile computes n tokens, whose rows begin at first, for the rank's query heads of one
// of its KV heads.
func (p *pass) attendTile(s *scratch, k *rank, first, n, head, base, window int) {
	c := p.r.cfg
	d, ld := c.headDim, kernel.Padded(c.headDim)
	group := k.group()
	lo := visibleFrom(int(p.pos[first]), window) - base
	hi := int(p.pos[first+n-1]) + 1 - base
	fromPanel, toPanel := lo/16, (hi+15)/16
	stride := kernel.Padded(hi)
	s.query = grow(s.query, n*group*d)
	s.scores = grow(s.scores, n*group*stride)
	s.result = grow(s.result, group*ld)
	for t := range n {
		copy(s.query[t*group*d:(t+1)*group*d], k.qkv.row(first + t)[head*group*d:])
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
		att := k.att.row(first + t)[head*group*d:]
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
