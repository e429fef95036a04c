package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxAlignment     = 1 << 20
	maxDims          = 4
	// maxNesting bounds arrays of arrays, which real files hardly use.
	maxNesting = 4
)

var errNoGGUF = errors.New("not a GGUF file")

// Parse reads a file held in memory. The data must stay unchanged while File is used.
func Parse(data []byte) (*File, error) { return Read(bytes.NewReader(data), int64(len(data))) }

// Read reads the header of a file of the given size; tensors are read on demand.
func Read(src io.ReaderAt, size int64) (*File, error) {
	r := &reader{
		buf:  bufio.NewReaderSize(io.NewSectionReader(src, 0, size), 1<<16),
		left: size,
	}
	f := &File{meta: map[string]any{}, index: map[string]int{}, src: src, size: size}
	if err := f.readHeader(r); err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}

func (f *File) readHeader(r *reader) error {
	if r.left < int64(len(magic)) {
		return errNoGGUF
	}
	head, err := r.bytes(uint64(len(magic)))
	if err != nil {
		return err
	}
	if string(head) != magic {
		return errNoGGUF
	}
	if f.Version, err = r.u32(); err != nil {
		return err
	}
	switch f.Version {
	case 2, 3:
	case 2 << 24, 3 << 24:
		return fmt.Errorf("big-endian files are not supported")
	default:
		return fmt.Errorf("version %d: want 2 or 3", f.Version)
	}
	tensors, err := r.u64()
	if err != nil {
		return err
	}
	keys, err := r.u64()
	if err != nil {
		return err
	}
	if err := f.readMeta(r, keys); err != nil {
		return err
	}
	if err := f.readTensors(r, tensors); err != nil {
		return err
	}
	return f.place(f.size - r.left)
}

func (f *File) readMeta(r *reader, n uint64) error {
	for i := range n {
		key, err := r.str()
		if err != nil {
			return fmt.Errorf("metadata key %d: %w", i, err)
		}
		v, err := r.typed()
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if _, twice := f.meta[key]; twice {
			return fmt.Errorf("key %q is there twice", key)
		}
		f.meta[key] = v
		f.keys = append(f.keys, key)
	}
	return nil
}

func (f *File) readTensors(r *reader, n uint64) error {
	for i := range n {
		t, err := r.tensor()
		if err != nil {
			if t.Name == "" {
				return fmt.Errorf("tensor %d: %w", i, err)
			}
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if _, twice := f.index[t.Name]; twice {
			return fmt.Errorf("tensor %q is there twice", t.Name)
		}
		f.index[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// place turns the tensors' offsets, which count from the end of the header rounded up,
// into offsets in the file, and checks them.
func (f *File) place(header int64) error {
	align := int64(defaultAlignment)
	if v, ok := f.meta["general.alignment"]; ok {
		a, ok := v.(uint32)
		if !ok || a == 0 || a&(a-1) != 0 || a > maxAlignment {
			return fmt.Errorf("key %q: %v is not a power of two up to %d", "general.alignment", v, maxAlignment)
		}
		align = int64(a)
	}
	base := (header + align - 1) / align * align
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.offset%align != 0 {
			return fmt.Errorf("tensor %q: offset %d is not a multiple of %d", t.Name, t.offset, align)
		}
		if t.offset > f.size-base {
			return fmt.Errorf("tensor %q: begins past the file's end", t.Name)
		}
		t.offset += base
		// A type we cannot read has a size we do not know; it fails when it is asked for.
		if n, err := t.Type.Bytes(t.Elements()); err == nil && int64(n) > f.size-t.offset {
			return fmt.Errorf("tensor %q: ends past the file's end", t.Name)
		}
	}
	return nil
}

// reader reads the header and knows how many bytes are left, so that no count in the
// file can make it allocate more than the file could fill.
type reader struct {
	buf  *bufio.Reader
	left int64
}

// room reports whether n items of at least size bytes each can still follow.
func (r *reader) room(n uint64, size int64) error {
	if n > uint64(r.left/size) {
		return fmt.Errorf("%d items of %d bytes or more, but %d bytes are left", n, size, r.left)
	}
	return nil
}

func (r *reader) bytes(n uint64) ([]byte, error) {
	if err := r.room(n, 1); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.buf, b); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	r.left -= int64(n)
	return b, nil
}

func (r *reader) u32() (uint32, error) {
	v, err := r.scalar(4)
	return uint32(v), err
}

func (r *reader) u64() (uint64, error) { return r.scalar(8) }

// scalar reads size little-endian bytes.
func (r *reader) scalar(size int) (uint64, error) {
	if int64(size) > r.left {
		return 0, fmt.Errorf("the file ends early")
	}
	b, err := r.buf.Peek(size)
	if err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	var w [8]byte
	copy(w[:], b)
	if _, err := r.buf.Discard(size); err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	r.left -= int64(size)
	return binary.LittleEndian.Uint64(w[:]), nil
}

func (r *reader) str() (string, error) {
	n, err := r.u64()
	if err != nil {
		return "", err
	}
	b, err := r.bytes(n)
	if err != nil {
		return "", fmt.Errorf("string: %w", err)
	}
	return string(b), nil
}

// tensor reads one tensor's description; its offset still counts from the data's start.
func (r *reader) tensor() (Tensor, error) {
	var t Tensor
	var err error
	if t.Name, err = r.str(); err != nil {
		return t, err
	}
	dims, err := r.u32()
	if err != nil {
		return t, err
	}
	if dims < 1 || dims > maxDims {
		return t, fmt.Errorf("%d dimensions: want 1 to %d", dims, maxDims)
	}
	total := uint64(1)
	for range dims {
		d, err := r.u64()
		if err != nil {
			return t, err
		}
		if d == 0 || d > math.MaxInt32 || total > math.MaxInt64/16/d {
			return t, fmt.Errorf("a dimension of %d is too large or zero", d)
		}
		total *= d
		t.Dims = append(t.Dims, int(d))
	}
	kind, err := r.u32()
	if err != nil {
		return t, err
	}
	t.Type = Type(kind)
	off, err := r.u64()
	if err != nil {
		return t, err
	}
	if off > math.MaxInt64/2 {
		return t, fmt.Errorf("offset %d is too large", off)
	}
	t.offset = int64(off)
	return t, nil
}
