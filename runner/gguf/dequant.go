package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"kvferry/runner/kernel"
)

// Floats reads a tensor's elements as float32. All three types convert exactly.
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
	case Q8_0:
		for i := range dst {
			block := data[i/32*34:]
			scale := kernel.HalfToFloat(binary.LittleEndian.Uint16(block))
			dst[i] = scale * float32(int8(block[2+i%32]))
		}
	default:
		panic(fmt.Sprintf("gguf: decode %s", t))
	}
}

// Encode stores elements as type t: F16 rounds to nearest even, Q8_0 gives each 32 a
// scale of their largest magnitude over 127.
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
	case Q8_0:
		for b := range len(src) / 32 {
			encodeQ8(out[b*34:], src[b*32:(b+1)*32])
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
