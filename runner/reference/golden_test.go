package reference

import (
	"encoding/json"
	"os"
	"testing"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
)

type goldenCase struct {
	Prompt    string
	IDs       []int32
	Positions []int
	Top5      [][][2]float64
	Greedy    []int32
}

func goldenCases(t testing.TB) []goldenCase {
	t.Helper()
	raw, err := os.ReadFile("../../models/tiny/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct{ Cases []goldenCase }
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	return golden.Cases
}

// goldenBound is the most that a logit may differ from the training framework's.
const goldenBound = 0.02

func TestGolden(t *testing.T) {
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32} {
		r, err := Load(models.TinyName, models.Tiny, Options{BlockTokens: 16, KV: kv})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		const blocks = 64
		var pools [][]byte
		var tables []kvcache.BlockTable
		for g := range r.Layout().Groups {
			pools = append(pools, make([]byte, blocks*r.Layout().BlockBytes(g)))
			var tb kvcache.BlockTable
			for b := range blocks {
				tb.Blocks = append(tb.Blocks, kvcache.BlockID(b))
			}
			tables = append(tables, tb)
		}
		if err := r.Attach(pools); err != nil {
			t.Fatal(err)
		}
		for _, c := range goldenCases(t) {
			logits := make([]float32, r.Model().Vocab)
			worst := 0.0
			start := 0
			for k, pos := range c.Positions {
				if err := r.Forward([]runner.Work{{Tokens: c.IDs[start : pos+1], Start: start, Tables: tables, Logits: logits}}); err != nil {
					t.Fatal(err)
				}
				start = pos + 1
				for _, top := range c.Top5[k] {
					worst = max(worst, max(float64(logits[int(top[0])])-top[1], top[1]-float64(logits[int(top[0])])))
				}
			}
			if start < len(c.IDs) {
				if err := r.Forward([]runner.Work{{Tokens: c.IDs[start:], Start: start, Tables: tables, Logits: logits}}); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%s %d tokens: worst %g", kv, len(c.IDs), worst)
			if worst > goldenBound {
				t.Errorf("worst %g", worst)
			}
			pos := len(c.IDs)
			for i, want := range c.Greedy {
				got := int32(0)
				for v := range logits {
					if logits[v] > logits[got] {
						got = int32(v)
					}
				}
				if got != want {
					t.Fatalf("greedy %d: %d want %d", i, got, want)
				}
				if err := r.Forward([]runner.Work{{Tokens: []int32{got}, Start: pos, Tables: tables, Logits: logits}}); err != nil {
					t.Fatal(err)
				}
				pos++
			}
		}
	}
}
