package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Writer collects a model file's metadata and tensors.
type Writer struct {
	keys    int
	meta    bytes.Buffer
	tensors []Tensor
	data    [][]byte
}

// Set adds a key. The value is of any type that File.Value gives, but for []any.
func (w *Writer) Set(key string, v any) error {
	k, data, err := encodeValue(v)
	if err != nil {
		return fmt.Errorf("gguf: key %q: %w", key, err)
	}
	putString(&w.meta, key)
	put32(&w.meta, uint32(k))
	w.meta.Write(data)
	w.keys++
	return nil
}

// Tensor adds a tensor; dims are as in Tensor, values are stored as type t.
func (w *Writer) Tensor(name string, dims []int, t Type, values []float32) error {
	info := Tensor{Name: name, Dims: dims, Type: t}
	if len(dims) < 1 || len(dims) > maxDims || info.Elements() != len(values) {
		return fmt.Errorf("gguf: tensor %q: dimensions %v do not make %d elements", name, dims, len(values))
	}
	data, err := Encode(t, values)
	if err != nil {
		return fmt.Errorf("gguf: tensor %q: %w", name, err)
	}
	w.tensors = append(w.tensors, info)
	w.data = append(w.data, data)
	return nil
}

// Bytes is the whole file, version 3.
func (w *Writer) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(magic)
	put32(&b, 3)
	put64(&b, uint64(len(w.tensors)))
	put64(&b, uint64(w.keys))
	b.Write(w.meta.Bytes())
	offset := 0
	for i, t := range w.tensors {
		putString(&b, t.Name)
		put32(&b, uint32(len(t.Dims)))
		for _, d := range t.Dims {
			put64(&b, uint64(d))
		}
		put32(&b, uint32(t.Type))
		put64(&b, uint64(offset))
		offset = aligned(offset + len(w.data[i]))
	}
	for _, d := range w.data {
		pad(&b)
		b.Write(d)
	}
	pad(&b)
	return b.Bytes()
}

func aligned(n int) int { return (n + defaultAlignment - 1) / defaultAlignment * defaultAlignment }

func pad(b *bytes.Buffer) { b.Write(make([]byte, aligned(b.Len())-b.Len())) }

func put32(b *bytes.Buffer, v uint32) { b.Write(binary.LittleEndian.AppendUint32(nil, v)) }
func put64(b *bytes.Buffer, v uint64) { b.Write(binary.LittleEndian.AppendUint64(nil, v)) }

func putString(b *bytes.Buffer, s string) {
	put64(b, uint64(len(s)))
	b.WriteString(s)
}

// encodeValue gives a value's kind and its bytes as they follow the kind.
func encodeValue(v any) (kind, []byte, error) {
	switch v := v.(type) {
	case string:
		var b bytes.Buffer
		putString(&b, v)
		return kindString, b.Bytes(), nil
	case []string:
		var b bytes.Buffer
		put32(&b, uint32(kindString))
		put64(&b, uint64(len(v)))
		for _, s := range v {
			putString(&b, s)
		}
		return kindArray, b.Bytes(), nil
	}
	if k, ok := scalarKind(v); ok {
		b, err := binary.Append(nil, binary.LittleEndian, v)
		return k, b, err
	}
	k, n, ok := arrayKind(v)
	if !ok {
		return 0, nil, fmt.Errorf("a value of type %T cannot be written", v)
	}
	var b bytes.Buffer
	put32(&b, uint32(k))
	put64(&b, uint64(n))
	err := binary.Write(&b, binary.LittleEndian, v)
	return kindArray, b.Bytes(), err
}

func scalarKind(v any) (kind, bool) {
	switch v.(type) {
	case uint8:
		return kindU8, true
	case int8:
		return kindI8, true
	case uint16:
		return kindU16, true
	case int16:
		return kindI16, true
	case uint32:
		return kindU32, true
	case int32:
		return kindI32, true
	case float32:
		return kindF32, true
	case bool:
		return kindBool, true
	case uint64:
		return kindU64, true
	case int64:
		return kindI64, true
	case float64:
		return kindF64, true
	}
	return 0, false
}

func arrayKind(v any) (kind, int, bool) {
	switch v := v.(type) {
	case []uint8:
		return kindU8, len(v), true
	case []int8:
		return kindI8, len(v), true
	case []uint16:
		return kindU16, len(v), true
	case []int16:
		return kindI16, len(v), true
	case []uint32:
		return kindU32, len(v), true
	case []int32:
		return kindI32, len(v), true
	case []float32:
		return kindF32, len(v), true
	case []bool:
		return kindBool, len(v), true
	case []uint64:
		return kindU64, len(v), true
	case []int64:
		return kindI64, len(v), true
	case []float64:
		return kindF64, len(v), true
	}
	return 0, 0, false
}

// Copy sets every key of f, so that a file can be written again with other tensors.
func (w *Writer) Copy(f *File) error {
	for _, k := range f.keys {
		if k == "general.alignment" {
			continue // we write with the default
		}
		if err := w.Set(k, f.meta[k]); err != nil {
			return err
		}
	}
	return nil
}
