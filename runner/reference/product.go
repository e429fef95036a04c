package reference

import "kvferry/runner/kernel"

// product is a matrix product that the crew is computing: rows products of src's rows into
// dst.
type product struct {
	m        *kernel.Matrix
	dst, src *buffer
	rows     int
}

// piecesPerWorker is how many pieces a product is cut into for each worker, so that one
// that is held up does not hold up the rest for long.
const piecesPerWorker = 4

// The products of a layer, as tensor rank t has them.

func (p *pass) qkv(t int) product {
	return product{p.l.ranks[t].qkv, &p.ranks[t].qkv, &p.h, p.rows}
}

func (p *pass) attnOut(t int) product {
	return product{p.l.ranks[t].out, &p.ranks[t].sum, &p.ranks[t].att, p.rows}
}

func (p *pass) gateUp(t int) product {
	return product{p.l.ranks[t].gateUp, &p.ranks[t].act, &p.h, p.rows}
}

func (p *pass) down(t int) product {
	return product{p.l.ranks[t].down, &p.ranks[t].sum, &p.ranks[t].act, p.rows}
}

// multiply computes one of the layer's products on every rank.
func (p *pass) multiply(of func(p *pass, t int) product) {
	p.products = p.products[:0]
	for t := range p.ranks {
		p.products = append(p.products, of(p, t))
	}
	p.compute()
}

// compute computes the products, each cut into as many pieces.
func (p *pass) compute() {
	most := 0
	for i := range p.products {
		most = max(most, p.products[i].m.Panels())
	}
	n, pieces := len(p.products), 1
	if workers := p.r.crew.workers; workers > 1 {
		pieces = (workers*piecesPerWorker + n - 1) / n
	}
	p.panels = max(1, (most+pieces-1)/pieces)
	p.pieces = (most + p.panels - 1) / p.panels
	p.run((*pass).computePiece, n*p.pieces)
}

func (p *pass) computePiece(_, item int) {
	t, piece := p.split(item)
	q := &p.products[t]
	from := piece * p.panels
	q.m.Mul(q.dst.data, q.dst.stride, q.src.data, q.src.stride, q.rows, from, min(from+p.panels, q.m.Panels()))
}
