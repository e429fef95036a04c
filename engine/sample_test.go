package engine

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/wire"
)

// TestSampleGreedy takes the likeliest token, the lowest of equals.
//
// req: SERVE-02
func TestSampleGreedy(t *testing.T) {
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{3, 1, 3, 3}, 0},
		{[]float32{0, 0, 0}, 0},
		{[]float32{-5, -4, -4}, 1},
		{[]float32{float32(math.Inf(-1)), -9}, 1},
	} {
		got := Sample(c.logits, Sampling{Seed: 7}, 3, -1)
		if got.Token != c.want || got.Logprob != 0 || got.Top != nil {
			t.Errorf("%v gives %+v, want token %d alone", c.logits, got, c.want)
		}
	}
}

// TestSampleLogprobs reports the logarithm of the unscaled distribution, whatever the
// temperature, and the alternatives with the lower of equals first.
func TestSampleLogprobs(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), 0, float32(math.Log(4))} // weights 1, 2, 1, 4
	ln := func(p float64) float32 { return float32(math.Log(p)) }
	for _, s := range []Sampling{{}, {Temperature: 0.3, TopP: 1}, {Temperature: 5, TopP: 1, TopK: 2}} {
		for top, want := range map[int][]wire.TokenLogprob{
			0: nil,
			3: {{Token: 3, Logprob: ln(4. / 8)}, {Token: 1, Logprob: ln(2. / 8)}, {Token: 0, Logprob: ln(1. / 8)}},
			9: {{Token: 3, Logprob: ln(4. / 8)}, {Token: 1, Logprob: ln(2. / 8)}, {Token: 0, Logprob: ln(1. / 8)}, {Token: 2, Logprob: ln(1. / 8)}},
		} {
			got := Sample(logits, s, 0, top)
			if !slices.EqualFunc(got.Top, want, near) {
				t.Errorf("%+v, top %d: %v, want %v", s, top, got.Top, want)
			}
			p := []float64{1. / 8, 2. / 8, 1. / 8, 4. / 8}[got.Token]
			if math.Abs(float64(got.Logprob)-math.Log(p)) > 1e-6 {
				t.Errorf("%+v: token %d has %v, want %v", s, got.Token, got.Logprob, math.Log(p))
			}
		}
	}
}

func near(a, b wire.TokenLogprob) bool {
	return a.Token == b.Token && math.Abs(float64(a.Logprob-b.Logprob)) < 1e-6
}

// TestSampleFollowsTheDistribution draws many and compares the shares, after each filter.
func TestSampleFollowsTheDistribution(t *testing.T) {
	ln := func(p float64) float32 { return float32(math.Log(p)) }
	logits := []float32{ln(0.1), ln(0.4), ln(0.2), ln(0.3)}
	for _, c := range []struct {
		name string
		s    Sampling
		want [4]float64
	}{
		{"as it is", Sampling{Temperature: 1, TopP: 1}, [4]float64{0.1, 0.4, 0.2, 0.3}},
		{"top 2", Sampling{Temperature: 1, TopP: 1, TopK: 2}, [4]float64{0, 4. / 7, 0, 3. / 7}},
		{"top 99", Sampling{Temperature: 1, TopP: 1, TopK: 99}, [4]float64{0.1, 0.4, 0.2, 0.3}},
		{"top p 0.5 needs two", Sampling{Temperature: 1, TopP: 0.5}, [4]float64{0, 4. / 7, 0, 3. / 7}},
		{"top p 0.05 needs one", Sampling{Temperature: 1, TopP: 0.05}, [4]float64{0, 1, 0, 0}},
		{"top p 0 needs one", Sampling{Temperature: 1, TopP: 0}, [4]float64{0, 1, 0, 0}},
		{"top p of what top k left", Sampling{Temperature: 1, TopP: 0.6, TopK: 2}, [4]float64{0, 4. / 7, 0, 3. / 7}},
		{"a temperature of a half squares", Sampling{Temperature: 0.5, TopP: 1}, [4]float64{1. / 30, 16. / 30, 4. / 30, 9. / 30}},
		{"a small temperature is greedy", Sampling{Temperature: 1e-3, TopP: 1}, [4]float64{0, 1, 0, 0}},
	} {
		const n = 40000
		var counts [4]int
		for pos := range n {
			counts[Sample(logits, c.s, pos, -1).Token]++
		}
		for token, want := range c.want {
			got := float64(counts[token]) / n
			if math.Abs(got-want) > 0.012 || want == 0 && got > 0 {
				t.Errorf("%s: token %d has a share of %.4f, want %.4f", c.name, token, got, want)
			}
		}
	}
}

// TestSampleIsDecidedBySeedAndPosition: another engine draws the same token, and neither the
// seed nor the position alone decides it.
//
// req: SERVE-02
func TestSampleIsDecidedBySeedAndPosition(t *testing.T) {
	logits := make([]float32, 64)
	draw := func(seed uint64, position int) int32 {
		return Sample(logits, Sampling{Temperature: 1, TopP: 1, Seed: seed}, position, -1).Token
	}
	const n = 2000
	equal := map[string]int{}
	for i := range n {
		if first, again := draw(9, i), draw(9, i); first != again {
			t.Fatalf("two draws at position %d differ: %d and %d", i, first, again)
		}
		for name, other := range map[string]int32{
			"the next position": draw(9, i+1), "the next seed": draw(10, i), "seed and position swapped": draw(uint64(i), 9),
		} {
			if draw(9, i) == other {
				equal[name]++
			}
		}
	}
	for name, got := range equal {
		if share := float64(got) / n; share > 3./64 {
			t.Errorf("%s draws the same in %.3f of all cases, want about 1/64", name, share)
		}
	}
}

// TestSampleKeepsToTheFilters at random: the token is among the top k, it is what a greedy
// draw takes when one is left, and the report is of the drawn token.
func TestSampleKeepsToTheFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-30, 30), 1, 30).Draw(t, "logits")
		s := Sampling{
			Temperature: rapid.Float64Range(0, 3).Draw(t, "temperature"), TopK: rapid.IntRange(0, 35).Draw(t, "k"),
			TopP: rapid.Float64Range(0, 1).Draw(t, "p"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		got := Sample(logits, s, rapid.IntRange(0, 1<<20).Draw(t, "position"), len(logits))
		likelier := 0
		for i, v := range logits {
			if v > logits[got.Token] || v == logits[got.Token] && i < int(got.Token) {
				likelier++
			}
		}
		if s.TopK > 0 && likelier >= s.TopK || (s.TopK == 1 || s.Temperature == 0) && likelier > 0 {
			t.Fatalf("%+v draws token %d, and %d are likelier", s, got.Token, likelier)
		}
		if got.Top[likelier] != got.TokenLogprob {
			t.Fatalf("%v is reported at rank %d as %v", got.TokenLogprob, likelier, got.Top[likelier])
		}
	})
}
