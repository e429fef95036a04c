package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// The vector code must give the plain code's bits, so that a machine without it
// continues what one with it began.
func TestVectorEqualsPlain(t *testing.T) {
	if !vector {
		t.Skip("this processor has no AVX2")
	}
	defer func() { vector = true }()
	both := func(f func()) {
		vector = true
		f()
		vector = false
		f()
	}
	rng := rand.New(rand.NewPCG(3, 1))
	wild := func(n int) []float32 {
		v := randoms(rng, n)
		for i := range v {
			v[i] *= float32(math.Pow(10, float64(rng.IntN(9)-4)))
		}
		return v
	}
	for round := range 300 {
		n, in := []int{1, 2, 4}[round%3], rng.IntN(90)
		ldd, ldx, ldw, add := 16+rng.IntN(9), in+rng.IntN(3), 16+rng.IntN(20), rng.IntN(2) == 0
		x, w, d := wild(n*ldx+1), wild(in*ldw+16), wild(n*ldd+16)
		var got [][]float32
		both(func() {
			c := append([]float32(nil), d...)
			gemm(c, ldd, x, ldx, w, ldw, n, in, add)
			got = append(got, c)
		})
		sameBits(t, "gemm", got[0], got[1])

		e := wild(rng.IntN(40))
		got = nil
		both(func() {
			c := append([]float32(nil), e...)
			Exp(c)
			got = append(got, c)
		})
		sameBits(t, "exp", got[0], got[1])
	}
}

func TestVectorHalves(t *testing.T) {
	if !vector {
		t.Skip("this processor has no F16C")
	}
	defer func() { vector = true }()
	src := make([]byte, 2<<16)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[2*i:], uint16(i))
	}
	var wide [2][]float32
	for i := range wide {
		vector = i == 0
		wide[i] = make([]float32, 1<<16)
		HalvesToFloats(wide[i], src)
	}
	sameBits(t, "widen", wide[0], wide[1])
	rng := rand.New(rand.NewPCG(4, 1))
	floats := make([]float32, 1<<18+3)
	for i := range floats {
		floats[i] = math.Float32frombits(rng.Uint32())
		if i%2 == 0 { // and many in the range of halves
			floats[i] = math.Float32frombits(0x33000000 + rng.Uint32N(0x16000000))
		}
	}
	var narrow [2][]byte
	for i := range narrow {
		vector = i == 0
		narrow[i] = make([]byte, 2*len(floats))
		FloatsToHalves(narrow[i], floats)
	}
	if !bytes.Equal(narrow[0], narrow[1]) {
		t.Error("narrowing differs")
	}
}

func sameBits(t *testing.T, what string, a, b []float32) {
	t.Helper()
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("%s: element %d is %g with vectors, %g without", what, i, a[i], b[i])
		}
	}
}
