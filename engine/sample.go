package engine

import (
	"cmp"
	"math"
	"slices"

	"kvferry/wire"
)

// Sampling says how a token is drawn from logits.
type Sampling struct {
	// Temperature 0 takes the likeliest token.
	Temperature float64
	// TopK keeps the k likeliest tokens; 0 keeps all. TopP keeps the fewest tokens whose
	// probabilities sum to at least it; 1 keeps all.
	TopK int
	TopP float64
	// Seed with a token's position decides its draw, so that it does not matter which engine
	// draws it.
	Seed uint64
}

// Sampled is a drawn token, its log-probability (natural, of the unscaled distribution), and
// the likeliest alternatives if they were asked for.
type Sampled struct {
	wire.TokenLogprob
	Top []wire.TokenLogprob
}

// Sample draws the token at position from its logits. Ties go to the lower token, so equal
// logits give equal tokens. top is the number of alternatives to report, -1 for no logprobs.
func Sample(logits []float32, s Sampling, position, top int) Sampled {
	var out Sampled
	if s.Temperature <= 0 {
		out.Token = argmax(logits)
	} else {
		out.Token = draw(logits, s, uniform(s.Seed, position))
	}
	if top < 0 {
		return out
	}
	norm := logSumExp(logits)
	logprob := func(t int32) wire.TokenLogprob {
		return wire.TokenLogprob{Token: t, Logprob: float32(float64(logits[t]) - norm)}
	}
	out.TokenLogprob = logprob(out.Token)
	if top > 0 {
		for _, t := range ranked(logits)[:min(top, len(logits))] {
			out.Top = append(out.Top, logprob(t))
		}
	}
	return out
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

// ranked is every token, likeliest first.
func ranked(logits []float32) []int32 {
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	return order
}

// draw takes the token at which the cumulative probability passes u.
func draw(logits []float32, s Sampling, u float64) int32 {
	order := ranked(logits)
	if s.TopK > 0 {
		order = order[:min(s.TopK, len(order))]
	}
	peak := float64(logits[order[0]])
	weights := make([]float64, len(order))
	sum := 0.0
	for i, t := range order {
		weights[i] = math.Exp((float64(logits[t]) - peak) / s.Temperature)
		sum += weights[i]
	}
	kept, keptSum := len(order), sum
	if s.TopP < 1 {
		kept, keptSum = 0, 0
		for kept < len(order) && (kept == 0 || keptSum < s.TopP*sum) {
			keptSum += weights[kept]
			kept++
		}
	}
	target, acc := u*keptSum, 0.0
	for i, t := range order[:kept] {
		acc += weights[i]
		if acc > target {
			return t
		}
	}
	return order[kept-1]
}

func logSumExp(logits []float32) float64 {
	peak := float64(logits[argmax(logits)])
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - peak)
	}
	return peak + math.Log(sum)
}

// uniform is a number in [0,1) that depends on seed and position alone.
func uniform(seed uint64, position int) float64 {
	x := mix(seed + 0x9e3779b97f4a7c15*(uint64(position)+1))
	return float64(mix(x)>>11) / (1 << 53)
}

// mix spreads every bit of x over the result.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}
