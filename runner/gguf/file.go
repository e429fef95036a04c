package gguf

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrMissing is wrapped by errors about a key or tensor that the file does not have.
var ErrMissing = errors.New("not in the file")

// Type is how a tensor's elements are stored, by GGML's number.
type Type uint32

// The tensor types that can be read and written.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q8_0 Type = 8
)

func (t Type) String() string {
	switch t {
	case F32:
		return "F32"
	case F16:
		return "F16"
	case Q4_0:
		return "Q4_0"
	case Q4_1:
		return "Q4_1"
	case Q8_0:
		return "Q8_0"
	}
	return fmt.Sprintf("GGML type %d", uint32(t))
}

// quants is how many elements a block of a quantised type has.
const quants = 32

// block is how many elements one unit of the type holds and its size in bytes; 0, 0 if
// the type is not supported.
func (t Type) block() (elems, bytes int) {
	switch t {
	case F32:
		return 1, 4
	case F16:
		return 1, 2
	case Q4_0:
		return quants, 2 + quants/2
	case Q4_1:
		return quants, 4 + quants/2
	case Q8_0:
		return quants, 2 + quants
	}
	return 0, 0
}

// Bytes is the size of n elements, which must be whole blocks.
func (t Type) Bytes(n int) (int, error) {
	elems, size := t.block()
	switch {
	case elems == 0:
		return 0, fmt.Errorf("%s is not supported: want F32, F16, Q8_0, Q4_0 or Q4_1", t)
	case n < 0 || n%elems != 0:
		return 0, fmt.Errorf("%d elements are not whole blocks of %d (%s)", n, elems, t)
	case n/elems > math.MaxInt/size:
		return 0, fmt.Errorf("%d elements are too many", n)
	}
	return n / elems * size, nil
}

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	// Dims has one to four sizes, the fastest-running first: a matrix has [inputs, outputs].
	Dims []int
	Type Type
	// offset is where the data begins, counted from the file's start.
	offset int64
}

// Elements is the number of elements.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// File is a parsed GGUF file. It keeps reading tensors from its source.
type File struct {
	Version uint32
	Tensors []Tensor

	keys  []string
	meta  map[string]any
	index map[string]int
	src   io.ReaderAt
	size  int64
}

// Keys lists the metadata keys in file order.
func (f *File) Keys() []string { return f.keys }

// Value is a key's value: an integer, float, bool or string of the stored width, or a
// slice of them; an array of arrays is []any.
func (f *File) Value(key string) (any, bool) {
	v, ok := f.meta[key]
	return v, ok
}

// Tensor finds a tensor by its name.
func (f *File) Tensor(name string) (Tensor, error) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q: %w", name, ErrMissing)
	}
	return f.Tensors[i], nil
}

// Data reads a tensor's bytes as stored.
func (f *File) Data(t Tensor) ([]byte, error) {
	n, err := t.Type.Bytes(t.Elements())
	if err == nil {
		_, err = t.Type.Bytes(t.Dims[0]) // a row is stored by itself
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	// Offsets were checked against the file's size only for types whose size is known, so
	// this holds for every tensor that gets here.
	if t.offset < 0 || int64(n) > f.size-t.offset {
		return nil, fmt.Errorf("tensor %q: ends past the file's end", t.Name)
	}
	buf := make([]byte, n)
	if _, err := f.src.ReadAt(buf, t.offset); err != nil && !(err == io.EOF && t.offset+int64(n) == f.size) {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return buf, nil
}
