package reference

import (
	"math"

	"kvferry/runner/kernel"
)

func (p *pass) attnNorm(_, item int) {
	from, to := p.chunk(item)
	for i := from; i < to; i++ {
		rmsNorm(p.h.row(i), p.x.row(i), p.l.attnNorm, p.r.cfg.eps)
	}
}

// afterAttention adds the attention's result to the residual stream and normalises that
// for the feed-forward.
func (p *pass) afterAttention(_, item int) {
	from, to := p.chunk(item)
	for i := from; i < to; i++ {
		p.addSum(i, p.l.postAttnNorm)
		rmsNorm(p.h.row(i), p.x.row(i), p.l.ffnNorm, p.r.cfg.eps)
	}
}

func (p *pass) afterFFN(_, item int) {
	from, to := p.chunk(item)
	for i := from; i < to; i++ {
		p.addSum(i, p.l.postFFNNorm)
	}
}

// addSum adds row i of the ranks' sum, normalised if norm is not nil, to the residual stream.
func (p *pass) addSum(i int, norm []float32) {
	x, s := p.x.row(i), p.total(i)
	if norm != nil {
		rmsNorm(s, s, norm, p.r.cfg.eps)
	}
	for d, v := range s {
		x[d] += v
	}
}

// total adds up row i of the ranks' sums, in pairs as a rank adds its own partial sums. The
// first rank's row holds the result.
func (p *pass) total(i int) []float32 {
	width := p.r.cfg.width
	for apart := 1; apart < len(p.ranks); apart *= 2 {
		for t := 0; t < len(p.ranks); t += 2 * apart {
			sum := p.ranks[t].sum.row(i)[:width]
			for d, v := range p.ranks[t+apart].sum.row(i)[:width] {
				sum[d] += v
			}
		}
	}
	return p.ranks[0].sum.row(i)[:width]
}

// The tanh form of GELU is x times the logistic function of 2*geluA*(x + geluB*x^3).
const (
	geluA = 0.7978845608028654 // sqrt(2/pi)
	geluB = 0.044715
)

// activate turns gate and up into the activation: GELU or SiLU of gate, times up.
func (p *pass) activate(_, item int) {
	t, piece := p.split(item)
	k := &p.ranks[t]
	n := k.ffn.Len()
	from, to := p.chunk(piece)
	var buf [256]float32
	for i := from; i < to; i++ {
		row := k.act.row(i)
		for d := 0; d < n; d += len(buf) {
			end := min(d+len(buf), n)
			gate, up := row[d:end], row[n+d:n+end]
			e := buf[:len(gate)]
			if p.r.cfg.gemma() {
				for j, x := range gate {
					e[j] = float32(float32(-2*geluA) * float32(x+float32(float32(geluB)*float32(x*float32(x*x)))))
				}
			} else {
				for j, x := range gate {
					e[j] = -x
				}
			}
			kernel.Exp(e)
			for j, x := range gate {
				gate[j] = float32(x/(1+e[j])) * up[j]
			}
		}
	}
}

// logits computes the logits of the rows that want them.
func (p *pass) logits() {
	c := p.r.cfg
	for k, i := range p.outs {
		rmsNorm(p.h.row(k), p.x.row(int(i)), p.r.w.norm, c.eps)
	}
	if len(p.outs) == 0 {
		return
	}
	p.products = append(p.products[:0], product{p.r.w.output, &p.out, &p.h, len(p.outs)})
	p.compute()
	for k, i := range p.outs {
		copy(p.batch[p.work[i]].Logits, p.out.row(k))
	}
}

// rmsNorm sets dst to x over its root mean square, times weight. The squares are summed
// in float64, where each is exact, in four interleaved sums.
func rmsNorm(dst, x, weight []float32, eps float64) {
	var s [4]float64
	for i, v := range x {
		s[i&3] += float64(v) * float64(v)
	}
	mean := ((s[0] + s[1]) + (s[2] + s[3])) / float64(len(x))
	inv := float32(1 / math.Sqrt(mean+eps))
	for i, w := range weight {
		dst[i] = float32(x[i]*inv) * w
	}
}
