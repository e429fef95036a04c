package reference

import (
	"errors"
	"fmt"

	"kvferry/kvcache"
	"kvferry/runner/gguf"
	"kvferry/runner/kernel"
)

// weights are a model's tensors in the form the forward pass wants them.
type weights struct {
	vocab int
	// embed holds the embeddings as stored, a row a token.
	embed     []byte
	embedType gguf.Type
	norm      []float32
	output    *kernel.Matrix
	layers    []layer
}

// layer holds one layer's weights. Norms that an architecture lacks are nil.
type layer struct {
	attnNorm, qNorm, kNorm, postAttnNorm []float32
	ffnNorm, postFFNNorm                 []float32
	// ranks has the matrices of each tensor rank.
	ranks []matrices
}

// matrices are one rank's part of a layer. qkv gives queries, keys and values side by side;
// gateUp gate and up likewise.
type matrices struct{ qkv, out, gateUp, down *kernel.Matrix }

// loader reads tensors, keeps the first error and counts which tensors were used.
type loader struct {
	f    *gguf.File
	used map[string]bool
	err  error
}

func loadWeights(f *gguf.File, c *config, sh shares) (*weights, error) {
	ld := &loader{f: f, used: map[string]bool{}}
	w := ld.embeddings(c)
	for l := 0; l < c.layers && ld.err == nil; l++ {
		w.layers = append(w.layers, ld.layer(c, sh, fmt.Sprintf("blk.%d.", l)))
	}
	if ld.err != nil {
		return nil, ld.err
	}
	for _, t := range f.Tensors {
		if !ld.used[t.Name] {
			return nil, fmt.Errorf("tensor %q: architecture %s as we know it has none such", t.Name, c.arch)
		}
	}
	return w, nil
}

func (ld *loader) embeddings(c *config) *weights {
	const embed, output = "token_embd.weight", "output.weight"
	w := &weights{}
	t, err := ld.f.Tensor(embed)
	if err != nil {
		ld.err = err
		return w
	}
	if len(t.Dims) != 2 || t.Dims[0] != c.width {
		ld.err = fmt.Errorf("tensor %q: dimensions %v, want [%d vocabulary]", embed, t.Dims, c.width)
		return w
	}
	ld.used[embed] = true
	w.vocab = t.Dims[1]
	w.embedType = t.Type
	if w.embed, ld.err = ld.f.Data(t); ld.err != nil {
		return w
	}
	w.norm = ld.vector("output_norm.weight", c.width)
	name := embed
	if _, err := ld.f.Tensor(output); !errors.Is(err, gguf.ErrMissing) {
		name = output
	}
	if ms := ld.byOutputs(c.width, part{name, []kvcache.Span{{End: w.vocab}}}); ms != nil {
		w.output = ms[0]
	}
	return w
}

func (ld *loader) layer(c *config, sh shares, prefix string) layer {
	l := layer{
		attnNorm: ld.vector(prefix+"attn_norm.weight", c.width),
		ffnNorm:  ld.vector(prefix+"ffn_norm.weight", c.width),
	}
	if c.gemma() {
		l.qNorm = ld.vector(prefix+"attn_q_norm.weight", c.headDim)
		l.kNorm = ld.vector(prefix+"attn_k_norm.weight", c.headDim)
		l.postAttnNorm = ld.vector(prefix+"post_attention_norm.weight", c.width)
		l.postFFNNorm = ld.vector(prefix+"post_ffw_norm.weight", c.width)
	}
	ranks, kv := len(sh.kv), scaled(sh.kv, c.headDim)
	qkv := ld.byOutputs(c.width, part{prefix + "attn_q.weight", scaled(sh.query, c.headDim)},
		part{prefix + "attn_k.weight", kv}, part{prefix + "attn_v.weight", kv})
	out := ld.byQuarters(prefix+"attn_output.weight", c.heads, c.headDim, c.width, ranks)
	gateUp := ld.byOutputs(c.width, part{prefix + "ffn_gate.weight", sh.ffn}, part{prefix + "ffn_up.weight", sh.ffn})
	down := ld.byQuarters(prefix+"ffn_down.weight", c.ffn, 1, c.width, ranks)
	if ld.err != nil {
		return l
	}
	for t := range ranks {
		l.ranks = append(l.ranks, matrices{qkv[t], out[t], gateUp[t], down[t]})
	}
	return l
}

// scaled turns spans of units into spans of elements.
func scaled(spans []kvcache.Span, size int) (out []kvcache.Span) {
	for _, s := range spans {
		out = append(out, kvcache.Span{Start: s.Start * size, End: s.End * size})
	}
	return out
}

// floats reads a tensor that must have these dimensions; nil after an error.
func (ld *loader) floats(name string, dims ...int) []float32 {
	if ld.err != nil {
		return nil
	}
	t, err := ld.f.Tensor(name)
	if err != nil {
		ld.err = err
		return nil
	}
	same := len(t.Dims) == len(dims)
	for i := 0; same && i < len(dims); i++ {
		same = t.Dims[i] == dims[i]
	}
	if !same {
		ld.err = fmt.Errorf("tensor %q: dimensions %v, want %v", name, t.Dims, dims)
		return nil
	}
	ld.used[name] = true
	v, err := ld.f.Floats(t)
	ld.err = err
	return v
}

func (ld *loader) vector(name string, n int) []float32 { return ld.floats(name, n) }

// part is a tensor that gives some of a matrix's outputs: each rank a span of them, the
// last rank the last.
type part struct {
	name  string
	spans []kvcache.Span
}

// byOutputs packs tensors with the same inputs side by side: for each rank, its outputs.
func (ld *loader) byOutputs(in int, parts ...part) []*kernel.Matrix {
	ranks := len(parts[0].spans)
	ms, at := make([]*kernel.Matrix, ranks), make([]int, ranks)
	for _, p := range parts {
		v := ld.floats(p.name, in, p.spans[ranks-1].End)
		if v == nil {
			return nil
		}
		for t, s := range p.spans {
			// Only now is it known that the file holds so much.
			if ms[t] == nil {
				ms[t] = kernel.NewMatrix(in, outputs(parts, t))
			}
			for o := s.Start; o < s.End; o++ {
				ms[t].SetColumn(at[t], v[o*in:(o+1)*in])
				at[t]++
			}
		}
	}
	return ms
}

// outputs is how many outputs of the parts rank t has.
func outputs(parts []part, t int) (n int) {
	for _, p := range parts {
		n += p.spans[t].Len()
	}
	return n
}

// byQuarters packs a tensor whose inputs are n units of the given size: for each rank, its
// quarters of them, a partial sum each.
func (ld *loader) byQuarters(name string, n, size, out, ranks int) (ms []*kernel.Matrix) {
	in, bounds := n*size, quarters(n, size)
	v := ld.floats(name, in, out)
	for t := 0; t < ranks && ld.err == nil; t++ {
		from, ends := bounds[t*4/ranks], bounds[t*4/ranks+1:(t+1)*4/ranks+1]
		var cuts []int
		for _, end := range ends {
			cuts = append(cuts, end-from)
		}
		m := kernel.NewMatrix(cuts[len(cuts)-1], out)
		for o := range out {
			m.SetColumn(o, v[o*in+from:])
		}
		ld.err = m.Split(cuts...)
		ms = append(ms, m)
	}
	return ms
}
