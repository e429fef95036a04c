package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"kvferry/models"
	"kvferry/runner/gguf"
)

// values has one of every metadata type.
var values = map[string]any{
	"u8": uint8(200), "i8": int8(-100), "u16": uint16(60000), "i16": int16(-30000), "u32": uint32(4e9), "i32": int32(-2e9),
	"u64": uint64(1 << 63), "i64": int64(-1 << 62), "f32": float32(1.5), "f64": 2.25, "yes": true, "no": false, "text": "prose é", "empty": "",
	"u8s": []uint8{1, 255}, "i8s": []int8{-1}, "u16s": []uint16{7, 8}, "i16s": []int16{-7}, "u32s": []uint32{1}, "i32s": []int32{-1, 2},
	"u64s": []uint64{9}, "i64s": []int64{-9}, "f32s": []float32{0.5}, "f64s": []float64{0.25}, "bools": []bool{true, false},
	"texts": []string{"a", "", "b c"}, "none": []string{},
}

func sample(t testing.TB) []byte {
	t.Helper()
	var w gguf.Writer
	for k, v := range values {
		if err := w.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	row := make([]float32, 64)
	for i := range row {
		row[i] = float32(i) - 20.5
	}
	for _, kind := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1} {
		if err := w.Tensor(kind.String(), []int{32, 2}, kind, row); err != nil {
			t.Fatal(err)
		}
	}
	return w.Bytes()
}

func TestRoundTrip(t *testing.T) {
	f, err := gguf.Parse(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Keys()) != len(values) {
		t.Errorf("%d keys, want %d", len(f.Keys()), len(values))
	}
	for k, want := range values {
		if got, _ := f.Value(k); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", k, got, want)
		}
	}
	// Each type keeps what it can: Q8_0 steps by the largest magnitude over 127.
	for name, bound := range map[string]float64{"F32": 0, "F16": 0, "Q8_0": 43.5 / 127 / 2 * 1.01} {
		tensor, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Floats(tensor)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 64 || !reflect.DeepEqual(tensor.Dims, []int{32, 2}) {
			t.Fatalf("%s has %d elements in %v", name, len(got), tensor.Dims)
		}
		for i, v := range got {
			if math.Abs(float64(v)-(float64(i)-20.5)) > bound {
				t.Errorf("%s[%d] is %g", name, i, v)
			}
		}
	}
}

// A file written by another program, by way of an io.ReaderAt that is not memory.
func TestReadTiny(t *testing.T) {
	f, err := gguf.Read(struct{ io.ReaderAt }{bytes.NewReader(models.Tiny)}, int64(len(models.Tiny)))
	if err != nil {
		t.Fatal(err)
	}
	if arch, err := f.Str("general.architecture"); arch != "gemma3" {
		t.Errorf("architecture %q, %v", arch, err)
	}
	for _, tensor := range f.Tensors {
		v, err := f.Floats(tensor)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if rms := math.Sqrt(sum / float64(len(v))); !(rms > 1e-3 && rms < 100) {
			t.Errorf("tensor %s has a root mean square of %g", tensor.Name, rms)
		}
	}
}

func TestGetters(t *testing.T) {
	f, err := gguf.Parse(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"u8": 200, "i8": -100, "u16": 60000, "i16": -30000, "i32": -2e9} {
		if got, err := f.Int(key); got != want || err != nil {
			t.Errorf("Int(%s) is %d, %v", key, got, err)
		}
	}
	for _, key := range []string{"u64", "f32", "text", "i32s"} {
		if _, err := f.Int(key); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("Int(%s): %v", key, err)
		}
	}
	for key, want := range map[string][]int{"u8s": {1, 255}, "i8s": {-1}, "u16s": {7, 8}, "i16s": {-7}, "u32s": {1}, "i32s": {-1, 2}, "u64s": {9}, "i64s": {-9}} {
		if got, err := f.Ints(key); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("Ints(%s) is %v, %v", key, got, err)
		}
	}
	for key, want := range map[string]float64{"f32": 1.5, "f64": 2.25} {
		if got, err := f.Float(key); got != want || err != nil {
			t.Errorf("Float(%s) is %g, %v", key, got, err)
		}
	}
	missing := []error{}
	collect := func(_ any, err error) { missing = append(missing, err) }
	v1, e1 := f.Int("x")
	collect(v1, e1)
	v2, e2 := f.Float("x")
	collect(v2, e2)
	v3, e3 := f.Str("x")
	collect(v3, e3)
	v4, e4 := f.Ints("x")
	collect(v4, e4)
	v5, e5 := f.Tensor("x")
	collect(v5, e5)
	for i, err := range missing {
		if !errors.Is(err, gguf.ErrMissing) || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("getter %d: %v", i, err)
		}
	}
	if _, err := f.Str("u8"); err == nil || errors.Is(err, gguf.ErrMissing) {
		t.Errorf("Str(u8): %v", err)
	}
}

// raw builds a file by hand: header counts, then parts.
func raw(version uint32, tensors, keys uint64, parts ...any) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), version)
	b = binary.LittleEndian.AppendUint64(b, tensors)
	b = binary.LittleEndian.AppendUint64(b, keys)
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = binary.LittleEndian.AppendUint64(b, uint64(len(p)))
			b = append(b, p...)
		default:
			b, _ = binary.Append(b, binary.LittleEndian, p)
		}
	}
	return b
}

// What is wrong is refused by the name of its key or tensor, whatever sizes it claims.
func TestRefuses(t *testing.T) {
	const u8, u32, text, array = uint32(0), uint32(4), uint32(8), uint32(9)
	huge := uint64(1) << 62
	data := make([]byte, 256)
	tensor := func(name string, dims []uint64, kind uint32, offset uint64) []any {
		return []any{name, uint32(len(dims)), dims, kind, offset}
	}
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "not a GGUF file"},
		{"another format", []byte("GGML....................."), "not a GGUF file"},
		{"version 1", raw(1, 0, 0), "version 1"},
		{"big-endian", raw(3<<24, 0, 0), "big-endian"},
		{"cut header", raw(3, 0, 0)[:15], "ends early"},
		{"more keys than bytes", raw(3, 0, huge), "metadata key 0"},
		{"more tensors than bytes", raw(3, huge, 0), "tensor 0"},
		{"huge key", raw(3, 0, 1, huge, []byte("abc")), "metadata key 0"},
		{"unknown type", raw(3, 0, 1, "k", uint32(13)), `key "k": value type 13`},
		{"cut value", raw(3, 0, 1, "k", u32, uint16(1)), `key "k": the file ends early`},
		{"no bool", raw(3, 0, 1, "k", uint32(7), uint8(2)), `key "k": 2 is no bool`},
		{"huge string", raw(3, 0, 1, "k", text, huge), `key "k": string`},
		{"huge array", raw(3, 0, 1, "k", array, u8, huge), `key "k": array`},
		{"huge array of strings", raw(3, 0, 1, "k", array, text, huge), `key "k": array`},
		{"array of unknown", raw(3, 0, 1, "k", array, uint32(99), uint64(1)), `key "k": array element type 99`},
		{"deep array", raw(3, 0, 1, "k", array, array, uint64(1), array, uint64(1), array, uint64(1), array, uint64(1), array, uint64(0)), `key "k"`},
		{"key twice", raw(3, 0, 2, "k", u8, uint8(1), "k", u8, uint8(1)), `key "k" is there twice`},
		{"bad alignment", raw(3, 0, 1, "general.alignment", u32, uint32(33)), `key "general.alignment"`},
		{"alignment of a wrong type", raw(3, 0, 1, "general.alignment", u8, uint8(32)), `key "general.alignment"`},
		{"no dimensions", raw(3, 1, 0, "t", uint32(0)), `tensor "t": 0 dimensions`},
		{"five dimensions", raw(3, 1, 0, "t", uint32(5)), `tensor "t": 5 dimensions`},
		{"zero dimension", raw(3, 1, 0, append(tensor("t", []uint64{0}, 0, 0), data)...), `tensor "t"`},
		{"huge dimension", raw(3, 1, 0, append(tensor("t", []uint64{huge}, 0, 0), data)...), `tensor "t"`},
		{"dimensions that overflow", raw(3, 1, 0, append(tensor("t", []uint64{1 << 30, 1 << 30, 1 << 30}, 0, 0), data)...), `tensor "t"`},
		{"past the end", raw(3, 1, 0, append(tensor("t", []uint64{100}, 0, 0), data)...), `tensor "t": ends past`},
		{"begins past the end", raw(3, 1, 0, append(tensor("t", []uint64{4}, 0, 1<<40), data)...), `tensor "t": begins past`},
		{"huge offset", raw(3, 1, 0, append(tensor("t", []uint64{4}, 0, huge*2), data)...), `tensor "t"`},
		{"crooked offset", raw(3, 1, 0, append(tensor("t", []uint64{4}, 0, 4), data)...), `tensor "t": offset 4`},
		{"tensor twice", raw(3, 2, 0, append(append(tensor("t", []uint64{4}, 0, 0), tensor("t", []uint64{4}, 0, 0)...), data)...), `tensor "t" is there twice`},
	} {
		if _, err := gguf.Parse(c.file); err == nil {
			t.Errorf("%s: is taken", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q does not say %q", c.name, err, c.want)
		}
	}
	// Types that we cannot read are an error only for who reads them.
	for kind, want := range map[uint32]string{12: "GGML type 12 is not supported", 8: "whole blocks"} {
		f, err := gguf.Parse(raw(2, 1, 0, append(tensor("t", []uint64{4}, kind, 0), data)...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Floats(f.Tensors[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("type %d: %v", kind, err)
		}
	}
}

func TestNestedArray(t *testing.T) {
	f, err := gguf.Parse(raw(3, 0, 1, "k", uint32(9), uint32(9), uint64(2), uint32(0), uint64(1), uint8(7), uint32(8), uint64(1), "x"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Value("k"); !reflect.DeepEqual(got, []any{[]uint8{7}, []string{"x"}}) {
		t.Errorf("value %#v", got)
	}
}

func TestWriterRefuses(t *testing.T) {
	var w gguf.Writer
	if w.Set("k", struct{}{}) == nil {
		t.Error("a struct is taken")
	}
	for _, dims := range [][]int{nil, {2, 2}, {5}, {1, 1, 1, 1, 4}} {
		if w.Tensor("t", dims, gguf.F32, make([]float32, 3)) == nil {
			t.Errorf("dimensions %v are taken for 3 elements", dims)
		}
	}
	if w.Tensor("t", []int{3}, gguf.Q8_0, make([]float32, 3)) == nil {
		t.Error("3 elements are taken as Q8_0")
	}
}

// A source that fails is reported, not taken for data.
func TestReadError(t *testing.T) {
	file := models.Tiny
	broken := errors.New("disk on fire")
	for _, limit := range []int64{0, 70_000, int64(len(file)) - 1} {
		f, err := gguf.Read(flaky{bytes.NewReader(file), limit, broken}, int64(len(file)))
		if err == nil {
			for _, tensor := range f.Tensors {
				if _, e := f.Floats(tensor); e != nil {
					err = e
				}
			}
		}
		if !errors.Is(err, broken) {
			t.Errorf("failing after %d bytes: %v", limit, err)
		}
	}
}

type flaky struct {
	r     *bytes.Reader
	limit int64
	err   error
}

func (f flaky) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.limit {
		return 0, f.err
	}
	return f.r.ReadAt(p, off)
}

func TestQ8Extremes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	row := make([]float32, 32)
	for _, most := range []float32{0, 1e-9, 1, 60000} {
		for i := range row {
			row[i] = (2*rng.Float32() - 1) * most
		}
		row[3], row[4] = most, -most
		data, err := gguf.Encode(gguf.Q8_0, row)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 32)
		gguf.Decode(got, gguf.Q8_0, data)
		for i := range row {
			// Half a step, and what the scale loses as a half (below 6e-8 all of it).
			if d := math.Abs(float64(got[i] - row[i])); d > float64(most)/127*0.6+127*6e-8 {
				t.Errorf("up to %g: element %d is %g, want %g", most, i, got[i], row[i])
			}
		}
	}
}
