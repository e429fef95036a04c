package reference

import "math"

// angles holds the rotations of a pass's rows for one kind of layer.
type angles struct {
	freq     []float64 // radians a position, one a pair
	cos, sin []float32 // [row][pair]
}

func newAngles(r rope, headDim int) angles {
	a := angles{freq: make([]float64, headDim/2)}
	for i := range a.freq {
		a.freq[i] = r.scale * math.Pow(r.base, -2*float64(i)/float64(headDim))
	}
	return a
}

func (a *angles) grow(rows int) {
	if n := rows * len(a.freq); n > len(a.cos) {
		a.cos, a.sin = make([]float32, n), make([]float32, n)
	}
}

// set computes a row's rotations. In float64 a library's last bit hardly ever shows after
// rounding, so machines agree.
func (a *angles) set(row, pos int) {
	for i, f := range a.freq {
		s, c := math.Sincos(float64(pos) * f)
		a.cos[row*len(a.freq)+i], a.sin[row*len(a.freq)+i] = float32(c), float32(s)
	}
}

// turn rotates one head of a row. Pair i is elements i and half+i (NeoX order), or
// neighbours when interleaved (the order that GGUF files of llama have).
func (a *angles) turn(v []float32, row int, interleaved bool) {
	half := len(a.freq)
	cos, sin := a.cos[row*half:(row+1)*half], a.sin[row*half:(row+1)*half]
	step, apart := 1, half
	if interleaved {
		step, apart = 2, 1
	}
	for i, c := range cos {
		s := sin[i]
		x, y := v[i*step], v[i*step+apart]
		v[i*step] = float32(x*c) - float32(y*s)
		v[i*step+apart] = float32(x*s) + float32(y*c)
	}
}
