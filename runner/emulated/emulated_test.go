package emulated

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kvferry/kvcache"
	"kvferry/runner"
)

// TestShapes: the KV of a token in f16 is the product of the published shape.
func TestShapes(t *testing.T) {
	for name, want := range map[string]struct {
		kib    float64 // a token
		groups int
		layers int // that see everything
	}{
		"llama-3.1-8b":  {128, 1, 32},
		"llama-3.1-70b": {320, 1, 80},
		"qwen2.5-7b":    {56, 1, 28},
		"gemma-3-12b":   {384, 2, 8},
	} {
		r, err := Open(name, Options{BlockTokens: 16, KV: kvcache.F16})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for g := range r.layout.Groups {
			sum += r.tokenBytes(g)
		}
		if got := sum / 1024; got != want.kib || len(r.layout.Groups) != want.groups || len(r.layout.Groups[0].Layers) != want.layers {
			t.Errorf("%s: %v KiB a token, %d groups, %d layers that see everything: want %+v",
				name, got, len(r.layout.Groups), len(r.layout.Groups[0].Layers), want)
		}
		wide, err := Open(name, Options{BlockTokens: 16, KV: kvcache.F32})
		if err != nil || wide.layout.BlockBytes(0) != 2*r.layout.BlockBytes(0) {
			t.Errorf("%s in f32: %v, %d bytes a block", name, err, wide.layout.BlockBytes(0))
		}
	}
}

// TestTimes: the roofline gives the figures of the package's documentation.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		name      string
		start, n  int
		low, high time.Duration
	}{
		{"llama-3.1-8b@h100", 0, 512, 16500 * time.Microsecond, 18000 * time.Microsecond}, // 30,800 tokens/s
		{"llama-3.1-8b@h100", 10, 1, 7300 * time.Microsecond, 7500 * time.Microsecond},
		{"llama-3.1-8b@l4", 0, 512, 136 * time.Millisecond, 138 * time.Millisecond}, // 3,770 tokens/s
		{"llama-3.1-8b@l4", 10, 1, 76 * time.Millisecond, 78 * time.Millisecond},
		{"llama-3.1-70b@4xh100", 10, 1, 15 * time.Millisecond, 16 * time.Millisecond},
		{"llama-3.1-8b@l4", 4000, 1, 79 * time.Millisecond, 81 * time.Millisecond}, // its KV is read too
		{"test", 0, 256, 13 * time.Millisecond, 14 * time.Millisecond},
		{"test", 0, 1, 2 * time.Millisecond, 2500 * time.Microsecond},
	} {
		r, err := Open(c.name, Options{BlockTokens: tpb, KV: kvcache.F16})
		if err != nil {
			t.Fatal(err)
		}
		took := r.d.takes(r.costs([]runner.Work{{Tokens: make([]int32, c.n), Start: c.start}}))
		if took < c.low || took > c.high {
			t.Errorf("%s, %d tokens from %d on: %v, want %v to %v", c.name, c.n, c.start, took, c.low, c.high)
		}
	}
}

// TestPassTakesItsTime: a batch takes by the clock what its works ask for together.
func TestPassTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, "test", 32)
		m.d = devices["test"]
		batch := []runner.Work{
			{Tokens: prompt(1, 100), Tables: m.tables(0, 100)},
			{Tokens: prompt(2, 50), Tables: m.tables(16, 50)},
		}
		began := time.Now()
		if err := m.Forward(batch); err != nil {
			t.Fatal(err)
		}
		want := m.d.takes(m.costs(batch))
		if took := time.Since(began); took != want || want < 8*time.Millisecond {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

// TestLayersTakeTheirTime: layers are told of one after the other, each when its share of the pass
// is over, the last not at all; the pass takes no longer for it. What is told of is written.
//
// req: PIPE-01, PIPE-27
func TestLayersTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, "test", 32)
		m.d = devices["test"]
		const layers = 4
		began, told := time.Now(), 0
		var first []byte
		batch := []runner.Work{{Tokens: prompt(1, 100), Tables: m.tables(0, 100)}, {Tokens: prompt(2, 50), Tables: m.tables(16, 50)}}
		want := m.d.takes(m.costs(batch))
		batch[0].Written = func(through int) {
			told++
			if at := want * time.Duration(told) / layers; through != told || time.Since(began) != at {
				t.Errorf("layers below %d after %v, want %d after %v", through, time.Since(began), told, at)
			}
			if told == 1 {
				first = slices.Clone(m.block(0, batch[0].Tables[0].Block(0))[:m.layout.LayerBytes()])
			}
		}
		if err := m.Forward(batch); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != want || told != layers-1 {
			t.Errorf("took %v, want %v; told %d times", took, want, told)
		}
		if !slices.Equal(first, m.block(0, batch[0].Tables[0].Block(0))[:m.layout.LayerBytes()]) {
			t.Error("the first layer was told of and not written")
		}
	})
}

// TestVisibleSum adds up one by one.
func TestVisibleSum(t *testing.T) {
	for _, window := range []int{0, 1, 5, 100} {
		for start := range 12 {
			for n := 1; n < 12; n++ {
				want := 0.0
				for pos := start; pos < start+n; pos++ {
					want += float64(pos + 1 - visibleFrom(pos, window))
				}
				if got := visibleSum(start, n, window); got != want {
					t.Fatalf("start %d, %d tokens, window %d: %v, want %v", start, n, window, got, want)
				}
			}
		}
	}
}

// TestIdentity: engines exchange KV if they emulate the same model, on whatever device and
// with whatever context, and no others do.
func TestIdentity(t *testing.T) {
	hash := func(name string) string {
		r, err := Open(name, Options{BlockTokens: 16, KV: kvcache.F16})
		if err != nil {
			t.Fatal(err)
		}
		return r.Model().Hash
	}
	if hash("llama-3.1-8b@h100") != hash("llama-3.1-8b@2xm2-ultra,context=100") {
		t.Error("the device or the context makes another model")
	}
	seen := map[string]string{}
	for name := range models {
		h := hash(name)
		if other := seen[h]; other != "" || len(h) != 64 {
			t.Errorf("%s and %s have the hash %s", name, other, h)
		}
		seen[h] = name
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"":                                "want one of gemma-3-12b, llama",
		"llama":                           "want one of gemma-3-12b, llama",
		"llama-3.1-8b@":                   "device",
		"llama-3.1-8b@h200":               "h100",
		"llama-3.1-8b@0xh100":             "1 to 16",
		"llama-3.1-8b@17xh100":            "1 to 16",
		"llama-3.1-70b@h100":              "needs 141 GB for its weights and h100 has 80",
		"llama-3.1-8b,context=1":          "2 to 131072",
		"llama-3.1-8b,context=131073":     "2 to 131072",
		"llama-3.1-8b,ctx=8":              "context=N",
		"llama-3.1-8b@l4,context=8192,x":  "2 to 131072",
		"llama-3.1-8b,context=8192@4xl4 ": "2 to 131072",
	} {
		if _, err := Open(name, Options{BlockTokens: 16, KV: kvcache.F16}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", name, err, want)
		}
	}
	if _, err := Open("llama-3.1-8b", Options{BlockTokens: 16, KV: kvcache.Q8_0}); err == nil || !strings.Contains(err.Error(), "kv-dtype q8_0") {
		t.Errorf("q8_0: %v", err)
	}
	r, err := Open("llama-3.1-8b@2xl4,context=4000", Options{BlockTokens: 16, KV: kvcache.F16})
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Model(); m.Context != 4000 || m.Name != "emulated:llama-3.1-8b" || r.d.memory != 48e9 {
		t.Errorf("%+v on %+v", m, r.d)
	}
}

// TestText: what is likely prints, so that text and tokens say the same, and answers end now
// and then.
func TestText(t *testing.T) {
	m := start(t, "test", 4)
	tables := m.tables(0, 4)
	ends, seen := 0, map[int32]bool{}
	for i := range int32(vocab) {
		for j := range int32(8) {
			logits := m.mustPass(t, tables, 0, []int32{i, j})
			best := int32(0)
			for token, v := range logits {
				if v > logits[best] {
					best = int32(token)
				}
			}
			seen[best] = true
			if best == eos {
				ends++
			} else if best < ' ' || best > '~' {
				t.Fatalf("token %d is the likeliest", best)
			}
		}
	}
	if ends < 1 || ends > 40 || len(seen) < 90 {
		t.Errorf("%d of %d answers end, and %d different tokens come", ends, 8*vocab, len(seen))
	}
	tok := m.Tokenizer()
	const text = "Aé\x00<s>"
	var back []byte
	for _, token := range tok.Encode(text) {
		back = append(back, tok.Bytes(token)...)
	}
	if string(back) != text || tok.Bytes(bos) != nil || tok.Bytes(eos) != nil || tok.Bytes(-1) != nil {
		t.Errorf("%q comes back as %q", text, back)
	}
}

// TestRefusesBadWork: what no engine gives is an error and no panic.
func TestRefusesBadWork(t *testing.T) {
	m := start(t, "test", 4)
	good := m.tables(0, 4*tpb)
	for what, w := range map[string]runner.Work{
		"no tokens":                {Tables: good},
		"a token out of range":     {Tokens: []int32{vocab}, Tables: good},
		"a negative token":         {Tokens: []int32{-1}, Tables: good},
		"no tables":                {Tokens: []int32{1}},
		"a table too short":        {Tokens: make([]int32, 4*tpb+1), Tables: good},
		"a table that begins late": {Tokens: []int32{1}, Tables: []kvcache.BlockTable{{First: 1, Blocks: good[0].Blocks}}},
		"a block out of the pool":  {Tokens: []int32{1}, Tables: []kvcache.BlockTable{{Blocks: []kvcache.BlockID{4}}}},
		"past the context":         {Tokens: []int32{1}, Start: defaultContext, Tables: good},
		"room for other logits":    {Tokens: []int32{1}, Tables: good, Logits: make([]float32, 3)},
		"what was never computed":  {Tokens: []int32{1}, Start: 9, Tables: good},
	} {
		if err := m.Forward([]runner.Work{w}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := m.Attach(nil); err == nil {
		t.Error("no pools: no error")
	}
	if err := m.Attach([][]byte{make([]byte, 5)}); err == nil {
		t.Error("half a block: no error")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.pass(good, 0, []int32{1}); err == nil {
		t.Error("a pass after Close: no error")
	}
}

// TestRows: a row holds what was filled in and nothing else.
func TestRows(t *testing.T) {
	b := make([]byte, 64)
	fill(b, 12345, 77, 999)
	if l, token := read(b, 999); l != 12345 || token != 77 || !holds(b, 12345, 77, 999) {
		t.Errorf("read %d, %d", l, token)
	}
	for i := range b {
		damaged := slices.Clone(b)
		damaged[i] ^= 0x10
		if holds(damaged, 12345, 77, 999) {
			t.Errorf("byte %d is not looked at", i)
		}
	}
	if holds(b, 12346, 77, 999) || holds(b, 12345, 78, 999) || holds(b, 12345, 77, 998) {
		t.Error("another row's are taken for right")
	}
}
