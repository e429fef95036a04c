package kernel

import (
	"encoding/binary"
	"math"
)

// HalfToFloat widens an IEEE 754 binary16. It is exact; a NaN becomes quiet.
func HalfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch {
	case exp == 0:
		// A subnormal is frac times 2^-24, which a float32 holds exactly.
		v := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case exp == 0x1f && frac != 0:
		return math.Float32frombits(sign | 0x7fc00000 | frac<<13)
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// FloatToHalf rounds to the nearest binary16, ties to even. What is too large
// becomes infinite; a NaN stays one and becomes quiet.
func FloatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= 0x47800000: // 65536 and above, infinity too
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal or zero
		// Adding 0.5 moves the wanted bits to the end of the significand, rounded.
		sum := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(sum)-0x3f000000)
	}
	// Rounding may carry into the exponent, up to infinity; that is what is meant.
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}

// halfTable makes the plain conversion of stored values one look-up.
var halfTable = func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = HalfToFloat(uint16(i))
	}
	return t
}()

// HalvesToFloats widens len(dst) little-endian halves of src.
func HalvesToFloats(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := halvesToFloatsVector(dst, src); i < len(dst); i++ {
		dst[i] = halfTable[binary.LittleEndian.Uint16(src[2*i:])]
	}
}

// FloatsToHalves stores src in dst as len(src) little-endian halves.
func FloatsToHalves(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i := floatsToHalvesVector(dst, src); i < len(src); i++ {
		binary.LittleEndian.PutUint16(dst[2*i:], FloatToHalf(src[i]))
	}
}
