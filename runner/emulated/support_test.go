package emulated

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner"
)

const tpb = 8

// machine is a runner with pools of its own.
type machine struct {
	*Runner
	pools [][]byte
}

// fataler is a test or a rapid check.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// start makes a runner whose passes take no time, with so many blocks in each pool.
func start(t fataler, name string, blocks int) machine {
	t.Helper()
	r, err := Open(name, Options{BlockTokens: tpb, KV: kvcache.F16})
	if err != nil {
		t.Fatal(err)
	}
	r.d = device{flops: 1e30, bandwidth: 1e30, compute: 1, traffic: 1}
	m := machine{Runner: r}
	for g := range r.layout.Groups {
		// What nobody wrote is nobody's row.
		pool := bytes.Repeat([]byte{0xEE}, blocks*r.layout.BlockBytes(g))
		m.pools = append(m.pools, pool)
	}
	if err := r.Attach(m.pools); err != nil {
		t.Fatal(err)
	}
	return m
}

// tables gives every group the blocks from first on, enough for n tokens, in falling order.
func (m machine) tables(first, n int) []kvcache.BlockTable {
	var blocks []kvcache.BlockID
	for i := m.layout.TotalBlocks(n) - 1; i >= 0; i-- {
		blocks = append(blocks, kvcache.BlockID(first+i))
	}
	out := make([]kvcache.BlockTable, len(m.layout.Groups))
	for g := range out {
		out[g].Blocks = blocks
	}
	return out
}

// pass computes tokens from a position on and gives the logits.
func (m machine) pass(tables []kvcache.BlockTable, start int, tokens []int32) ([]float32, error) {
	logits := make([]float32, vocab)
	err := m.Forward([]runner.Work{{Tokens: tokens, Start: start, Tables: tables, Logits: logits}})
	return logits, err
}

func (m machine) mustPass(t fataler, tables []kvcache.BlockTable, start int, tokens []int32) []float32 {
	t.Helper()
	logits, err := m.pass(tables, start, tokens)
	if err != nil {
		t.Fatalf("tokens [%d,%d): %v", start, start+len(tokens), err)
	}
	return logits
}

// ferry copies a prompt's blocks to another machine, as a transfer does: of a group with a
// window only those that decode needs.
func ferry(from, to machine, src, dst []kvcache.BlockTable, n int) {
	for g := range from.pools {
		size := from.layout.BlockBytes(g)
		first := kvcache.StaleEnd(n, from.layout.Groups[g].Window, tpb)
		for b := first; b < from.layout.TotalBlocks(n); b++ {
			copy(to.block(g, dst[g].Block(b)), from.pools[g][int(src[g].Block(b))*size:][:size])
		}
	}
}

func (m machine) block(g int, b kvcache.BlockID) []byte {
	size := m.layout.BlockBytes(g)
	return m.pools[g][int(b)*size:][:size]
}

func prompt(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int32, n)
	for i := range out {
		out[i] = r.Int32N(vocab)
	}
	return out
}

// both runs a test with and without windows.
func both(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range []string{"test", "test-window"} {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}
