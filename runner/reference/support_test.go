package reference

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"kvferry/kvcache"
	"kvferry/models"
	"kvferry/runner"
)

// goldenCase is one case of golden.json, which the training framework made.
type goldenCase struct {
	Prompt string
	// IDs are the prompt's tokens, BOS first.
	IDs       []int32
	Positions []int
	// Top5 has the five largest logits at each of Positions, as pairs (token, logit).
	Top5   [][][2]float64
	Greedy []int32
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

// longCase is the golden case with the most tokens (495).
func longCase(t testing.TB) goldenCase {
	return slices.MaxFunc(goldenCases(t), func(a, b goldenCase) int { return len(a.IDs) - len(b.IDs) })
}

func loadTiny(t testing.TB, kv kvcache.DType) *Runner { return loadModel(t, models.Tiny, 16, kv) }

func loadModel(t testing.TB, file []byte, blockTokens int, kv kvcache.DType) *Runner {
	t.Helper()
	return loadCut(t, file, Options{BlockTokens: blockTokens, KV: kv})
}

func loadCut(t testing.TB, file []byte, opt Options) *Runner {
	t.Helper()
	r, err := Load(t.Name(), file, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// attach gives the runner pools of so many blocks and returns tables of them all, in order.
func attach(t testing.TB, r *Runner, blocks int) []kvcache.BlockTable {
	t.Helper()
	var pools [][]byte
	for g := range r.Layout().Groups {
		pools = append(pools, make([]byte, blocks*r.Layout().BlockBytes(g)))
	}
	if err := r.Attach(pools); err != nil {
		t.Fatal(err)
	}
	return sequentialTables(r, 0, blocks)
}

// sequentialTables maps every group's first n logical blocks to n physical ones in a row.
func sequentialTables(r *Runner, first, n int) []kvcache.BlockTable {
	tables := make([]kvcache.BlockTable, len(r.Layout().Groups))
	for g := range tables {
		for b := range n {
			tables[g].Blocks = append(tables[g].Blocks, kvcache.BlockID(first+b))
		}
	}
	return tables
}

func forward(t testing.TB, r *Runner, batch ...runner.Work) {
	t.Helper()
	if err := r.Forward(batch); err != nil {
		t.Fatal(err)
	}
}

func argmax(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}
