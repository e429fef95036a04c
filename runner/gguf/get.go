package gguf

import (
	"fmt"
	"math"
)

// get finds a key that must have type T.
func get[T any](f *File, key, want string) (T, error) {
	var zero T
	v, ok := f.meta[key]
	if !ok {
		return zero, fmt.Errorf("key %q: %w", key, ErrMissing)
	}
	t, ok := v.(T)
	if !ok {
		return zero, fmt.Errorf("key %q: is %T, want %s", key, v, want)
	}
	return t, nil
}

// Str is a string key's value.
func (f *File) Str(key string) (string, error) { return get[string](f, key, "string") }

// Bool is a bool key's value.
func (f *File) Bool(key string) (bool, error) { return get[bool](f, key, "bool") }

// Strs is the value of a key that holds an array of strings.
func (f *File) Strs(key string) ([]string, error) { return get[[]string](f, key, "strings") }

// Int is an integer key's value, whatever its stored width.
func (f *File) Int(key string) (int, error) {
	v, ok := f.meta[key]
	if !ok {
		return 0, fmt.Errorf("key %q: %w", key, ErrMissing)
	}
	n, ok := toInt(v)
	if !ok {
		return 0, fmt.Errorf("key %q: %v (%T) is no integer that fits", key, v, v)
	}
	return n, nil
}

func toInt(v any) (int, bool) {
	switch n := v.(type) {
	case uint8:
		return int(n), true
	case int8:
		return int(n), true
	case uint16:
		return int(n), true
	case int16:
		return int(n), true
	case uint32:
		return int(n), int64(n) <= math.MaxInt
	case int32:
		return int(n), true
	case int64:
		return int(n), int64(int(n)) == n
	case uint64:
		return int(n), n <= math.MaxInt
	}
	return 0, false
}

// Float is a float key's value.
func (f *File) Float(key string) (float64, error) {
	v, ok := f.meta[key]
	if !ok {
		return 0, fmt.Errorf("key %q: %w", key, ErrMissing)
	}
	switch n := v.(type) {
	case float32:
		return float64(n), nil
	case float64:
		return n, nil
	}
	return 0, fmt.Errorf("key %q: is %T, want float", key, v)
}

// Ints is the value of a key that holds an array of integers of any width.
func (f *File) Ints(key string) ([]int, error) {
	v, ok := f.meta[key]
	if !ok {
		return nil, fmt.Errorf("key %q: %w", key, ErrMissing)
	}
	var out []int
	var fits bool
	switch n := v.(type) {
	case []uint8:
		out, fits = ints(n)
	case []int8:
		out, fits = ints(n)
	case []uint16:
		out, fits = ints(n)
	case []int16:
		out, fits = ints(n)
	case []uint32:
		out, fits = ints(n)
	case []int32:
		out, fits = ints(n)
	case []uint64:
		out, fits = ints(n)
	case []int64:
		out, fits = ints(n)
	}
	if !fits {
		return nil, fmt.Errorf("key %q: is %T, want integers that fit", key, v)
	}
	return out, nil
}

func ints[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](in []T) ([]int, bool) {
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = int(v)
		if T(out[i]) != v || (out[i] < 0) != (v < 0) {
			return nil, false
		}
	}
	return out, true
}
