package kvcache

import "testing"

// TestDType: 64 values take the bytes that llama.cpp stores them in.
func TestDType(t *testing.T) {
	for name, size := range map[string]int{"f16": 128, "f32": 256, "q8_0": 68} {
		d, err := ParseDType(name)
		if err != nil || d.Bytes(64) != size || d.String() != name {
			t.Errorf("%s: %v of %d bytes, %v", name, d, d.Bytes(64), err)
		}
		if n, ok := d.Values(size); n != 64 || !ok {
			t.Errorf("%s: %d bytes are %d values, %v", name, size, n, ok)
		}
		if _, ok := d.Values(size + 1); ok {
			t.Errorf("%s: %d bytes are whole values", name, size+1)
		}
	}
	for _, name := range []string{"q4_0", "", "F16"} {
		if d, err := ParseDType(name); err == nil {
			t.Errorf("%q was accepted as %v", name, d)
		}
	}
}

// TestQuantizedHeads: values that are stored together are of one head, so that a share of the heads
// is as many whole bytes on any rank, at the same place in its head.
//
// req: SERVE-05
func TestQuantizedHeads(t *testing.T) {
	l := Layout{BlockTokens: 16, KVHeads: 4, HeadDim: 64, DType: Q8_0, Groups: []LayerGroup{{Layers: []int{0, 1}}}}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	if l.RowBytes() != 68 || l.HeadBytes() != 16*68 || l.BlockBytes(0) != 2*2*4*16*68 {
		t.Errorf("a row has %d bytes, a head %d, a block %d", l.RowBytes(), l.HeadBytes(), l.BlockBytes(0))
	}
	shards, err := l.Shards(Parallel{Tensor: 2, Pipeline: 1})
	if err != nil {
		t.Fatal(err)
	}
	for rank, s := range shards {
		if s.BlockBytes(0) != l.BlockBytes(0)/2 {
			t.Errorf("rank %d has %d of %d bytes", rank, s.BlockBytes(0), l.BlockBytes(0))
		}
		for layer := range 2 {
			for kv := range 2 {
				// Two heads side by side, as in the whole block.
				first := s.HeadOffset(0, layer, kv, s.Heads.Start)
				if got := s.HeadOffset(0, layer, kv, s.Heads.Start+1) - first; got != l.HeadBytes() || first%l.HeadBytes() != 0 {
					t.Errorf("rank %d, layer %d: heads are %d bytes apart, from %d on", rank, layer, got, first)
				}
			}
		}
	}
}
