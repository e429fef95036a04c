package kernel

import "math"

// The exponential is 2^n times a polynomial in what is left of x, with |r| at most
// ln(2)/2, where the series up to r^7/7! is off by less than a float32 can show.
const (
	expLow  = -87 // below it the result is too small to matter: it stays e^-87
	expHigh = 88
	log2e   = 1.4426950408889634
	// ln2Head has few bits, so that n*ln2Head is exact.
	ln2Head = 0.693359375
	ln2Tail = math.Ln2 - ln2Head
	// roundMagic added and taken away rounds to a whole number, ties to even.
	roundMagic = 3 << 22
)

// Exp replaces each x by e^x, accurate to about 1e-7 of its value; x is taken to
// lie in [-87,88]. A NaN stays one.
func Exp(x []float32) {
	for i := expVector(x); i < len(x); i++ {
		x[i] = expPlain(x[i])
	}
}

func expPlain(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, expLow), expHigh)
	t := float32(x*log2e) + roundMagic
	n := t - roundMagic
	r := x - float32(n*ln2Head)
	r -= float32(n * float32(ln2Tail))
	p := float32(1.0 / 5040)
	for _, c := range [...]float32{1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1} {
		p = float32(p*r) + c
	}
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}
