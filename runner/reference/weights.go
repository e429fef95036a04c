package reference

import (
	"errors"
	"fmt"

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
	// qkv gives queries, keys and values side by side; gateUp gate and up likewise.
	qkv, out, gateUp, down *kernel.Matrix
}

// loader reads tensors, keeps the first error and counts which tensors were used.
type loader struct {
	f    *gguf.File
	used map[string]bool
	err  error
}

func loadWeights(f *gguf.File, c *config) (*weights, error) {
	ld := &loader{f: f, used: map[string]bool{}}
	w := ld.embeddings(c)
	for l := 0; l < c.layers && ld.err == nil; l++ {
		w.layers = append(w.layers, ld.layer(c, fmt.Sprintf("blk.%d.", l)))
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
	w.output = ld.matrix(c.width, part{name, w.vocab})
	return w
}

func (ld *loader) layer(c *config, prefix string) layer {
	q, kv := c.heads*c.headDim, c.kvHeads*c.headDim
	l := layer{
		attnNorm: ld.vector(prefix+"attn_norm.weight", c.width),
		ffnNorm:  ld.vector(prefix+"ffn_norm.weight", c.width),
		qkv: ld.matrix(c.width, part{prefix + "attn_q.weight", q}, part{prefix + "attn_k.weight", kv},
			part{prefix + "attn_v.weight", kv}),
		out:    ld.matrix(q, part{prefix + "attn_output.weight", c.width}),
		gateUp: ld.matrix(c.width, part{prefix + "ffn_gate.weight", c.ffn}, part{prefix + "ffn_up.weight", c.ffn}),
		down:   ld.matrix(c.ffn, part{prefix + "ffn_down.weight", c.width}),
	}
	if c.gemma() {
		l.qNorm = ld.vector(prefix+"attn_q_norm.weight", c.headDim)
		l.kNorm = ld.vector(prefix+"attn_k_norm.weight", c.headDim)
		l.postAttnNorm = ld.vector(prefix+"post_attention_norm.weight", c.width)
		l.postFFNNorm = ld.vector(prefix+"post_ffw_norm.weight", c.width)
	}
	if ld.err == nil {
		ld.err = l.out.Split(quarters(c.heads, c.headDim))
	}
	if ld.err == nil {
		ld.err = l.down.Split(quarters(c.ffn, 1))
	}
	return l
}

// quarters cuts n units of the given size into four, as even as whole units allow.
func quarters(n, size int) (cuts [4]int) {
	for i := range cuts {
		cuts[i] = (i + 1) * n / 4 * size
	}
	return cuts
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

// part is a tensor that gives some of a matrix's outputs.
type part struct {
	name string
	out  int
}

// matrix packs tensors with the same inputs side by side.
func (ld *loader) matrix(in int, parts ...part) *kernel.Matrix {
	var m *kernel.Matrix
	total, at := 0, 0
	for _, p := range parts {
		total += p.out
	}
	for _, p := range parts {
		v := ld.floats(p.name, in, p.out)
		if v == nil {
			return nil
		}
		// Only now is it known that the file holds so much.
		if m == nil {
			m = kernel.NewMatrix(in, total)
		}
		for o := range p.out {
			m.SetColumn(at+o, v[o*in:(o+1)*in])
		}
		at += p.out
	}
	return m
}
