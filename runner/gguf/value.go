package gguf

import (
	"fmt"
	"math"
)

// kind is the stored type of a metadata value, by GGUF's number.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

// size is the fewest bytes a value of the kind takes.
func (k kind) size() int {
	switch k {
	case kindU8, kindI8, kindBool:
		return 1
	case kindU16, kindI16:
		return 2
	case kindU32, kindI32, kindF32:
		return 4
	case kindString, kindU64, kindI64, kindF64:
		return 8
	case kindArray:
		return 12
	}
	return 0
}

// typed reads a value that its kind precedes.
func (r *reader) typed() (any, error) {
	k, err := r.u32()
	if err != nil {
		return nil, err
	}
	if kind(k) == kindArray {
		return r.array(1)
	}
	return r.value(kind(k))
}

// value reads one value that is no array.
func (r *reader) value(k kind) (any, error) {
	switch k {
	case kindString:
		return r.str()
	case kindBool:
		return r.boolean()
	}
	size := k.size()
	if size == 0 || k == kindArray {
		return nil, fmt.Errorf("value type %d is unknown", k)
	}
	v, err := r.scalar(size)
	if err != nil {
		return nil, err
	}
	switch k {
	case kindU8:
		return uint8(v), nil
	case kindI8:
		return int8(v), nil
	case kindU16:
		return uint16(v), nil
	case kindI16:
		return int16(v), nil
	case kindU32:
		return uint32(v), nil
	case kindI32:
		return int32(v), nil
	case kindF32:
		return math.Float32frombits(uint32(v)), nil
	case kindI64:
		return int64(v), nil
	case kindF64:
		return math.Float64frombits(v), nil
	}
	return v, nil
}

func (r *reader) boolean() (bool, error) {
	v, err := r.scalar(1)
	if err == nil && v > 1 {
		err = fmt.Errorf("%d is no bool", v)
	}
	return v == 1, err
}

// array reads an array whose elements are all of one kind.
func (r *reader) array(depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("arrays are nested more than %d deep", maxNesting)
	}
	k32, err := r.u32()
	if err != nil {
		return nil, err
	}
	n, err := r.u64()
	if err != nil {
		return nil, err
	}
	k := kind(k32)
	if k.size() == 0 {
		return nil, fmt.Errorf("array element type %d is unknown", k32)
	}
	if err := r.room(n, int64(k.size())); err != nil {
		return nil, fmt.Errorf("array: %w", err)
	}
	count := int(n)
	switch k {
	case kindU8:
		return list(count, func() (uint8, error) { v, err := r.scalar(1); return uint8(v), err })
	case kindI8:
		return list(count, func() (int8, error) { v, err := r.scalar(1); return int8(v), err })
	case kindU16:
		return list(count, func() (uint16, error) { v, err := r.scalar(2); return uint16(v), err })
	case kindI16:
		return list(count, func() (int16, error) { v, err := r.scalar(2); return int16(v), err })
	case kindU32:
		return list(count, r.u32)
	case kindI32:
		return list(count, func() (int32, error) { v, err := r.scalar(4); return int32(v), err })
	case kindF32:
		return list(count, func() (float32, error) { v, err := r.u32(); return math.Float32frombits(v), err })
	case kindBool:
		return list(count, r.boolean)
	case kindString:
		return list(count, r.str)
	case kindU64:
		return list(count, r.u64)
	case kindI64:
		return list(count, func() (int64, error) { v, err := r.u64(); return int64(v), err })
	case kindF64:
		return list(count, func() (float64, error) { v, err := r.u64(); return math.Float64frombits(v), err })
	}
	return list(count, func() (any, error) { return r.array(depth + 1) })
}

// list reads n elements; the caller has checked that the file can hold them.
func list[T any](n int, read func() (T, error)) ([]T, error) {
	out := make([]T, n)
	for i := range out {
		v, err := read()
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}
