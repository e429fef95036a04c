package config

import (
	"reflect"
	"slices"

	"pgregory.net/rapid"
)

func equal(a, b Config) bool { return reflect.DeepEqual(a, b) }

// drawConfig draws a sparse configuration: any subset of keys, mostly with values that they
// may have.
func drawConfig(t *rapid.T) Config {
	var c Config
	for _, k := range keys {
		if k.section || rapid.IntRange(0, 2).Draw(t, k.path+" said") > 0 {
			continue
		}
		f := k.field(&c)
		if f.Kind() == reflect.Slice {
			f.Set(reflect.ValueOf(rapid.SliceOfN(rapid.SampledFrom(addresses), 0, 3).Draw(t, k.path)))
			continue
		}
		v := reflect.New(f.Type().Elem())
		v.Elem().Set(reflect.ValueOf(drawValue(t, k)))
		f.Set(v)
	}
	return c
}

var addresses = []string{
	"a:1", "http://a:1/", "b:2", "http://c:3", "https://[::1]:4", "d.example:5", "http://e", "", "f", "ftp://a:1", "a:1/v1", "a:0",
}

func drawValue(t *rapid.T, k key) any {
	switch {
	case k.isInt && k.words != nil:
		return rapid.SampledFrom([]int{1, 1, 2, 4, 3, 0}).Draw(t, k.path)
	case k.isInt:
		low, high := int(k.min), int(k.max)
		return rapid.SampledFrom([]int{low, low, low + 1, high, low - 1, high + 1}).Draw(t, k.path)
	case k.isTime:
		low, high := Seconds(k.min), Seconds(k.max)
		return rapid.SampledFrom([]Seconds{low, low, low + 1, 0.1 + 0.2, high, low - 1, high + 0.001}).Draw(t, k.path)
	case k.typ == reflect.TypeFor[*bool]():
		return rapid.Bool().Draw(t, k.path)
	case k.words != nil:
		return rapid.SampledFrom(slices.Concat(k.words, k.words, k.words, k.known, []string{"nonsense"})).Draw(t, k.path)
	}
	return rapid.SampledFrom([]string{"embedded", "a", "", "127.0.0.1", "::1", "true", "~", "1e3", "0x1", "- a", "a: b", "#", "'", `"`, "é", " a ", "*a", "!a", "%"}).Draw(t, k.path)
}
