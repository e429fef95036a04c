package kvcache

import "fmt"

// DType is how the K and V of one head of one token are stored.
type DType uint8

// The types that a cache can hold. Q8_0 is ggml's: each 32 values in a row are a scale in f16 and
// 32 signed bytes that it multiplies.
const (
	F16 DType = iota + 1
	F32
	Q8_0
)

// dtypes has what is known of each type: its name, and the bytes that so many values take together.
var dtypes = [...]struct {
	name          string
	values, bytes int
}{F16: {"f16", 1, 2}, F32: {"f32", 1, 4}, Q8_0: {"q8_0", 32, 34}}

const dtypeNames = "f16, f32 or q8_0"

func (d DType) valid() bool { return d > 0 && int(d) < len(dtypes) }

// group is how many values are stored together.
func (d DType) group() int { return dtypes[d].values }

// Bytes is the size of n values, which are a whole number of what is stored together.
func (d DType) Bytes(n int) int { return n / dtypes[d].values * dtypes[d].bytes }

// Values is how many values n bytes are, or false where that is no whole number of what is stored
// together.
func (d DType) Values(n int) (int, bool) {
	t := dtypes[d]
	return n / t.bytes * t.values, n%t.bytes == 0
}

func (d DType) String() string {
	if d.valid() {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// ParseDType reads the name that a flag or a file gives.
func ParseDType(s string) (DType, error) {
	for d := F16; d.valid(); d++ {
		if s == dtypes[d].name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("kv dtype %q: want %s", s, dtypeNames)
}
