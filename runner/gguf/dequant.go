package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"kvferry/runner/kernel"
)

// Floats reads a tensor's elements as float32. Every type converts exactly, but that Q4_1
// rounds its sum to float32.
func (f *File) Floats(t Tensor) ([]float32, error) {
	data, err := f.Data(t)
	if err != nil {
		return nil, err
	}
	out := make([]float32, t.Elements())
	Decode(out, t.Type, data)
	return out, nil
}

// Decode converts stored elements to float32; data holds exactly len(dst) of them.
func Decode(dst []float32, t Type, data []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case F16:
		kernel.HalvesToFloats(dst, data)
	case Q4_0, Q4_1, Q8_0:
		decodeBlocks(dst, t, data)
	default:
		panic(fmt.Sprintf("gguf: decode %s", t))
	}
}

// decodeBlocks decodes blocks of 32 elements, each with a scale and, in Q4_1, the least element.
// Of two elements in a byte, the one 16 further on has the higher bits.
func decodeBlocks(dst []float32, t Type, data []byte) {
	_, size := t.block()
	for len(dst) > 0 {
		block, out := data[:size], dst[:quants]
		data, dst = data[size:], dst[quants:]
		scale := kernel.HalfToFloat(binary.LittleEndian.Uint16(block))
		switch t {
		case Q8_0:
			for i := range out {
				out[i] = scale * float32(int8(block[2+i]))
			}
		case Q4_0:
			for i, b := range block[2:] {
				out[i] = scale * float32(int(b&15)-8)
				out[i+quants/2] = scale * float32(int(b>>4)-8)
			}
		case Q4_1:
			least := kernel.HalfToFloat(binary.LittleEndian.Uint16(block[2:]))
			for i, b := range block[4:] {
				// The conversions forbid fusing the products with the sums.
				out[i] = float32(scale*float32(b&15)) + least
				out[i+quants/2] = float32(scale*float32(b>>4)) + least
			}
		}
	}
}

// Encode stores elements as type t: F16 rounds to nearest even, and the others give each 32 a
// scale: Q8_0 of their largest magnitude over 127, Q4_0 of the element of the largest magnitude
// over -8, and Q4_1 of the distance from the least to the largest over 15.
func Encode(t Type, src []float32) ([]byte, error) {
	n, err := t.Bytes(len(src))
	if err != nil {
		return nil, err
	}
	out := make([]byte, n)
	switch t {
	case F32:
		for i, v := range src {
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
		}
	case F16:
		kernel.FloatsToHalves(out, src)
	case Q4_0, Q4_1, Q8_0:
		encode := map[Type]func(dst []byte, src []float32){Q4_0: encodeQ40, Q4_1: encodeQ41, Q8_0: encodeQ8}[t]
		_, size := t.block()
		for b := range len(src) / quants {
			encode(out[b*size:], src[b*quants:(b+1)*quants])
		}
	}
	return out, nil
}

func encodeQ8(dst []byte, src []float32) {
	var most float32
	for _, v := range src {
		most = max(most, v, -v)
	}
	half := kernel.FloatToHalf(most / 127)
	binary.LittleEndian.PutUint16(dst, half)
	scale := float64(kernel.HalfToFloat(half))
	for i, v := range src {
		q := 0.0
		if scale != 0 {
			q = math.RoundToEven(float64(v) / scale)
		}
		// The rounded scale may be a little too small for the largest element.
		dst[2+i] = byte(int8(min(max(q, -127), 127)))
	}
}

func encodeQ40(dst []byte, src []float32) {
	var most float32
	for _, v := range src {
		if max(v, -v) > max(most, -most) {
			most = v
		}
	}
	half := kernel.FloatToHalf(most / -8)
	binary.LittleEndian.PutUint16(dst, half)
	scale := kernel.HalfToFloat(half)
	pack(dst[2:], src, scale, scale*-8)
}

func encodeQ41(dst []byte, src []float32) {
	least := kernel.FloatToHalf(slices.Min(src))
	half := kernel.FloatToHalf((slices.Max(src) - slices.Min(src)) / 15)
	binary.LittleEndian.PutUint16(dst, half)
	binary.LittleEndian.PutUint16(dst[2:], least)
	pack(dst[4:], src, kernel.HalfToFloat(half), kernel.HalfToFloat(least))
}

// pack stores elements as steps of a scale from the element that 0 stands for, two in a byte.
func pack(dst []byte, src []float32, scale, zero float32) {
	for i, v := range src {
		q := 0.0
		if scale != 0 {
			q = math.RoundToEven((float64(v) - float64(zero)) / float64(scale))
		}
		bits := byte(min(max(q, 0), 15))
		if i < quants/2 {
			dst[i] = bits
		} else {
			dst[i-quants/2] |= bits << 4
		}
	}
}
