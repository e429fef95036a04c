package reference

import (
	"fmt"

	"kvferry/runner"
	"kvferry/runner/gguf"
	"kvferry/runner/kernel"
)

// Forward computes a batch: its KV goes into the blocks, and the logits after each work's
// last token into Logits where it is not nil. On an error nothing was written.
func (r *Runner) Forward(batch []runner.Work) error {
	if err := r.check(batch); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	if len(batch) == 0 {
		return nil
	}
	p := &r.pass
	p.begin(batch)
	p.run((*pass).embed, p.chunks())
	for l := range p.r.cfg.layers {
		p.layer(l)
	}
	p.logits()
	p.batch, p.l, p.ranks = nil, nil, nil
	return nil
}

// pass is the state of one forward pass; its buffers are kept for the next. Rows are the
// batch's tokens, work after work.
type pass struct {
	r     *Runner
	batch []runner.Work
	rows  int
	work  []int32 // row to work
	pos   []int32 // row to position
	outs  []int32 // rows whose logits are wanted

	l     *layer
	ranks []rank // of the present layer's stage
	group int    // the present layer's group, and its number in the group
	inner int
	angle *angles

	pieces   int       // of the present step, on each rank
	panels   int       // of one piece of a product
	products []product // of the present step

	x      buffer // the residual stream
	h      buffer // its normalised copy
	out    buffer // logits
	angles []angles

	scratch []scratch // one a worker
}

// buffer is a matrix of activations with rows of the given stride.
type buffer struct {
	data   []float32
	stride int
}

func (b *buffer) grow(rows int) {
	if n := rows * b.stride; n > len(b.data) {
		b.data = make([]float32, n)
	}
}

func (b *buffer) row(i int) []float32 { return b.data[i*b.stride : (i+1)*b.stride] }

// rowsPerChunk is how many rows a worker takes at a time in steps that go by rows.
const rowsPerChunk = 16

func (p *pass) init(r *Runner) {
	c := r.cfg
	p.r = r
	p.x.stride = c.width
	p.h.stride = c.width
	p.out.stride = kernel.Padded(r.w.vocab)
	for i := range r.ranks {
		k := &r.ranks[i]
		k.qkv.stride = kernel.Padded((k.query.Len() + 2*k.kv.Len()) * c.headDim)
		k.att.stride = k.query.Len() * c.headDim
		k.act.stride = kernel.Padded(2 * k.ffn.Len())
		k.sum.stride = kernel.Padded(c.width)
	}
	for _, kind := range c.ropes {
		p.angles = append(p.angles, newAngles(kind, c.headDim))
	}
	p.scratch = make([]scratch, r.crew.workers)
}

// begin lays out the batch's rows.
func (p *pass) begin(batch []runner.Work) {
	p.batch = batch
	p.work, p.pos, p.outs = p.work[:0], p.pos[:0], p.outs[:0]
	for i, w := range batch {
		for t := range w.Tokens {
			p.work = append(p.work, int32(i))
			p.pos = append(p.pos, int32(w.Start+t))
		}
		if w.Logits != nil {
			p.outs = append(p.outs, int32(len(p.pos)-1))
		}
	}
	p.rows = len(p.pos)
	p.x.grow(p.rows)
	p.h.grow(p.rows)
	p.out.grow(len(p.outs))
	for i := range p.r.ranks {
		k := &p.r.ranks[i]
		for _, b := range []*buffer{&k.qkv, &k.att, &k.act, &k.sum} {
			b.grow(p.rows)
		}
	}
	for i := range p.angles {
		p.angles[i].grow(p.rows)
	}
}

func (p *pass) chunks() int { return (p.rows + rowsPerChunk - 1) / rowsPerChunk }

// chunk is the range of rows of chunk i.
func (p *pass) chunk(i int) (from, to int) {
	return i * rowsPerChunk, min((i+1)*rowsPerChunk, p.rows)
}

func (p *pass) run(s step, items int) { p.r.crew.run(s, p, items) }

// runRanks does a step's pieces, so many on each rank.
func (p *pass) runRanks(s step, pieces int) {
	p.pieces = pieces
	p.run(s, pieces*len(p.ranks))
}

// split says which tensor rank an item of runRanks is for, and which of its pieces it is.
func (p *pass) split(item int) (t, piece int) { return item / p.pieces, item % p.pieces }

// embed sets the rows' embeddings and rotation angles.
func (p *pass) embed(_, item int) {
	c, w := p.r.cfg, p.r.w
	size := len(w.embed) / w.vocab
	from, to := p.chunk(item)
	for i := from; i < to; i++ {
		work := &p.batch[p.work[i]]
		token := int(work.Tokens[int(p.pos[i])-work.Start])
		row := p.x.row(i)
		gguf.Decode(row, w.embedType, w.embed[token*size:(token+1)*size])
		for d := range row {
			row[d] *= c.embedScale
		}
		for k := range p.angles {
			p.angles[k].set(i, int(p.pos[i]))
		}
	}
}

// written tells whoever wants to know that the KV of the layers below through is in the blocks.
func (p *pass) written(through int) {
	for i := range p.batch {
		if tell := p.batch[i].Written; tell != nil {
			tell(through)
		}
	}
}

func (p *pass) layer(l int) {
	p.l = &p.r.w.layers[l]
	p.ranks = p.r.stages[l]
	p.group, p.inner = p.r.place[l][0], p.r.place[l][1]
	p.angle = &p.angles[p.r.cfg.ropeKind[l]]
	p.run((*pass).attnNorm, p.chunks())
	p.multiply((*pass).qkv)
	p.runRanks((*pass).store, p.chunks())
	p.written(l + 1)
	p.runRanks((*pass).attend, len(p.batch)*p.ranks[0].kv.Len())
	p.multiply((*pass).attnOut)
	p.run((*pass).afterAttention, p.chunks())
	p.multiply((*pass).gateUp)
	p.runRanks((*pass).activate, p.chunks())
	p.multiply((*pass).down)
	p.run((*pass).afterFFN, p.chunks())
}
