package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every half must widen to the value that its bits stand for and come back unchanged.
func TestHalfRoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		f := HalfToFloat(uint16(h))
		exp, frac := h>>10&0x1f, h&0x3ff
		want := math.Ldexp(float64(frac), -24)
		switch {
		case exp == 0x1f && frac != 0:
			if f == f {
				t.Fatalf("half %#x is no NaN", h)
			}
			if got := FloatToHalf(f); got != uint16(h)|0x200 {
				t.Fatalf("NaN %#x comes back as %#x", h, got)
			}
			continue
		case exp == 0x1f:
			want = math.Inf(1)
		case exp > 0:
			want = math.Ldexp(float64(frac+1024), exp-25)
		}
		if h&0x8000 != 0 {
			want = -want
		}
		if float64(f) != want || math.Signbit(float64(f)) != (h&0x8000 != 0) {
			t.Fatalf("half %#x widens to %g, want %g", h, f, want)
		}
		if got := FloatToHalf(f); got != uint16(h) {
			t.Fatalf("half %#x comes back as %#x", h, got)
		}
	}
}

// Rounding is checked against the two neighbouring halves: the nearer one, of equals the even.
func TestHalfRounding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		f := math.Float32frombits(rng.Uint32() & 0x7fffffff)
		if f != f {
			continue
		}
		got := FloatToHalf(f)
		if float64(f) >= 65520 {
			if got != 0x7c00 {
				t.Fatalf("%g gives %#x, want infinity", f, got)
			}
			continue
		}
		off := func(h uint16) float64 { return math.Abs(float64(HalfToFloat(h)) - float64(f)) }
		for _, near := range []uint16{got - 1, got + 1} {
			if near > 0x7bff {
				continue
			}
			if d := off(near) - off(got); d < 0 || d == 0 && got&1 == 1 {
				t.Fatalf("%g gives %#x, but %#x is better", f, got, near)
			}
		}
	}
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(-87); x <= 88; x += 0.00371 {
		v := []float32{x}
		Exp(v)
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(v[0])-want)/want)
	}
	t.Logf("worst relative error %.3g", worst)
	if worst > 2e-7 {
		t.Errorf("worst relative error %g", worst)
	}
	// Nine values take both the vector code and the plain code.
	for _, special := range []struct {
		x    float32
		good func(float32) bool
	}{
		{0, func(y float32) bool { return y == 1 }},
		{-1000, func(y float32) bool { return y > 0 && y < 2e-38 }},
		{float32(math.Inf(-1)), func(y float32) bool { return y > 0 && y < 2e-38 }},
		{float32(math.NaN()), func(y float32) bool { return y != y }},
	} {
		var v [9]float32
		for i := range v {
			v[i] = special.x
		}
		Exp(v[:])
		for _, y := range v {
			if !special.good(y) {
				t.Errorf("e^%g gives %v", special.x, v)
			}
		}
	}
}

// A product must be the sum in order, whatever the sizes, with each product rounded first.
func TestMatrixMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, size := range [][3]int{{1, 1, 1}, {7, 5, 3}, {64, 16, 4}, {33, 40, 7}, {12, 100, 9}} {
		in, out, rows := size[0], size[1], size[2]
		for _, split := range []int{0, 1, 2, 4} {
			m := NewMatrix(in, out)
			w := randoms(rng, in*out)
			for o := range out {
				m.SetColumn(o, w[o*in:(o+1)*in])
			}
			cuts := []int{in}
			if split > 0 {
				quarters := []int{in / 4, in / 2, in - in/4, in}
				cuts = quarters[4-split:]
				if err := m.Split(cuts...); err != nil {
					t.Fatal(err)
				}
			}
			ldx, ldd := in+2, Padded(out)+3
			x, dst := randoms(rng, rows*ldx), make([]float32, rows*ldd)
			m.Mul(dst, ldd, x, ldx, rows, 0, m.Panels())
			for r := range rows {
				for o := range out {
					want := sumOf(x[r*ldx:], w[o*in:], cuts)
					if got := dst[r*ldd+o]; math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("size %v split in %d: [%d][%d] is %g, want %g", size, split, r, o, got, want)
					}
				}
			}
		}
	}
}

// sumOf is the definition of a product: partial sums in order, added in pairs.
func sumOf(x, w []float32, cuts []int) float32 {
	var parts []float32
	from := 0
	for _, to := range cuts {
		var s float32
		for k := from; k < to; k++ {
			product := x[k] * w[k]
			s += float32(product)
		}
		parts = append(parts, s)
		from = to
	}
	switch len(parts) {
	case 1:
		return parts[0]
	case 2:
		return parts[0] + parts[1]
	}
	return (parts[0] + parts[1]) + (parts[2] + parts[3])
}

func randoms(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()*4 - 2
	}
	return v
}

func TestSplitRefuses(t *testing.T) {
	m := NewMatrix(8, 1)
	for _, cuts := range [][]int{{2, 4, 6, 7}, {4, 2, 6, 8}, {2, 4, 6, 9}, {-1, 2, 4, 8}, {4, 7}, {7}, {}, {2, 4, 8}, {1, 2, 3, 4, 8}} {
		if m.Split(cuts...) == nil {
			t.Errorf("cuts %v are taken", cuts)
		}
	}
}
