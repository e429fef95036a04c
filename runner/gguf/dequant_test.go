package gguf_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kvferry/runner/gguf"
)

// half are the bits of a few numbers as IEEE 754 halves.
var half = map[float32]uint16{0.5: 0x3800, -0.25: 0xb400, 2: 0x4000, -3: 0xc200, 0: 0, 1.0 / (1 << 24): 1}

// nibbles stores 32 numbers from 0 to 15 as blocks do: the first 16 in the lower bits.
func nibbles(q func(i int) int) (out []byte) {
	for i := range 16 {
		out = append(out, byte(q(i)|q(i+16)<<4))
	}
	return out
}

// TestBlocks: blocks written by hand decode to what the format says of them, exactly.
//
// req: SERVE-05
func TestBlocks(t *testing.T) {
	scaled := func(scale float32, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint16(nil, half[scale]), rest...)
	}
	up := func(i int) int { return i % 16 }
	down := func(i int) int { return 15 - i/2 }
	var signed []byte
	for i := range 32 {
		signed = append(signed, byte(int8(i*8-128)))
	}
	for name, c := range map[string]struct {
		kind gguf.Type
		data []byte
		want func(i int) float32
	}{
		"Q4_0 up":     {gguf.Q4_0, scaled(0.5, nibbles(up)...), func(i int) float32 { return 0.5 * float32(i%16-8) }},
		"Q4_0 down":   {gguf.Q4_0, scaled(-3, nibbles(down)...), func(i int) float32 { return -3 * float32(7-i/2) }},
		"Q4_0 zero":   {gguf.Q4_0, scaled(0, nibbles(up)...), func(int) float32 { return 0 }},
		"Q4_0 finest": {gguf.Q4_0, scaled(1.0/(1<<24), nibbles(up)...), func(i int) float32 { return float32(i%16-8) / (1 << 24) }},
		"Q4_1 up":     {gguf.Q4_1, scaled(0.5, append(scaled(-3), nibbles(up)...)...), func(i int) float32 { return 0.5*float32(i%16) - 3 }},
		"Q4_1 down":   {gguf.Q4_1, scaled(-0.25, append(scaled(2), nibbles(down)...)...), func(i int) float32 { return 2 - 0.25*float32(15-i/2) }},
		"Q8_0":        {gguf.Q8_0, scaled(-0.25, signed...), func(i int) float32 { return -0.25 * float32(i*8-128) }},
	} {
		// Two blocks, so that the second is found.
		got := make([]float32, 64)
		gguf.Decode(got, c.kind, slices.Concat(c.data, c.data))
		for i, v := range got {
			if v != c.want(i%32) {
				t.Errorf("%s: element %d is %g, want %g", name, i, v, c.want(i%32))
			}
		}
	}
}

// TestEncode: what is encoded decodes to something within half a step of it, a rounded scale aside,
// and numbers that a block can hold come back exactly.
func TestEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		kind  gguf.Type
		step  func(v []float32) float64
		exact []float32
	}{
		{gguf.Q4_0, func(v []float32) float64 { return math.Max(float64(slices.Max(v)), -float64(slices.Min(v))) / 8 * 2 }, []float32{-8, 7, 0, -1, 3}},
		{gguf.Q4_1, func(v []float32) float64 { return float64(slices.Max(v)-slices.Min(v)) / 15 }, []float32{-3, 12, 0, 5, 11}},
		{gguf.Q8_0, func(v []float32) float64 { return math.Max(float64(slices.Max(v)), -float64(slices.Min(v))) / 127 }, []float32{-127, 64, 0, 1}},
	} {
		for range 200 {
			v := make([]float32, 32)
			for i := range v {
				v[i] = float32(rng.NormFloat64())
			}
			got := recoded(t, c.kind, v)
			for i := range v {
				if d := math.Abs(float64(got[i] - v[i])); d > c.step(v)*0.5+0.01 {
					t.Fatalf("%s: %g became %g, steps are %g", c.kind, v[i], got[i], c.step(v))
				}
			}
		}
		exact := make([]float32, 32)
		for i := range exact {
			exact[i] = c.exact[i%len(c.exact)]
		}
		if got := recoded(t, c.kind, exact); !slices.Equal(got, exact) {
			t.Errorf("%s: %v became %v", c.kind, exact, got)
		}
		if got := recoded(t, c.kind, make([]float32, 32)); !slices.Equal(got, make([]float32, 32)) {
			t.Errorf("%s: zeros became %v", c.kind, got)
		}
	}
}

func recoded(t *testing.T, kind gguf.Type, v []float32) []float32 {
	t.Helper()
	data, err := gguf.Encode(kind, v)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(v))
	gguf.Decode(out, kind, data)
	return out
}

// TestCutBlocks: a tensor whose rows are not whole blocks, or of which the file has not all, is
// refused by its name.
func TestCutBlocks(t *testing.T) {
	for _, c := range []struct {
		name string
		dims []uint64
		kind uint32
		data int
		want string
	}{
		{"rows", []uint64{16, 2}, 2, 18, "16 elements are not whole blocks"},
		{"rows", []uint64{48, 2}, 3, 60, "48 elements are not whole blocks"},
		{"odd", []uint64{33}, 2, 36, "33 elements are not whole blocks"},
		{"short", []uint64{32, 2}, 2, 35, "end"},
		{"short", []uint64{64}, 3, 39, "end"},
		{"K", []uint64{256}, 12, 144, "GGML type 12 is not supported: want F32, F16, Q8_0, Q4_0 or Q4_1"},
	} {
		file := raw(3, 1, 0, c.name, uint32(len(c.dims)), c.dims, c.kind, uint64(0))
		file = append(file, make([]byte, (32-len(file)%32)%32+c.data)...)
		f, err := gguf.Parse(file)
		if err == nil {
			_, err = f.Floats(f.Tensors[0])
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%v of type %d in %d bytes: %v", c.dims, c.kind, c.data, err)
		}
	}
}

// Whatever bytes a tensor has, and however few, it is read or refused.
func FuzzTensor(f *testing.F) {
	for _, kind := range []uint32{0, 1, 2, 3, 8, 12} {
		f.Add(kind, uint16(32), uint16(2), make([]byte, 40))
		f.Add(kind, uint16(48), uint16(2), make([]byte, 64))
	}
	f.Fuzz(func(t *testing.T, kind uint32, width, rows uint16, data []byte) {
		file := raw(3, 1, 0, "t", uint32(2), []uint64{uint64(width), uint64(rows)}, kind, uint64(0))
		file = append(file, make([]byte, (32-len(file)%32)%32)...)
		parsed, err := gguf.Parse(append(file, data...))
		if err != nil {
			return
		}
		tensor := parsed.Tensors[0]
		v, err := parsed.Floats(tensor)
		if err == nil && len(v) != int(width)*int(rows) {
			t.Fatalf("%d elements of %d by %d", len(v), width, rows)
		}
		if size, _ := tensor.Type.Bytes(tensor.Elements()); err == nil && size > len(data) {
			t.Fatalf("%d bytes were read of %d", size, len(data))
		}
	})
}
