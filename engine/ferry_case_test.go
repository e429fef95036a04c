package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"kvferry/kvcache"
)

// ferry is one case: a prefill and a decode engine, what they are asked, and the seed of what
// happens when. It is plain data, so that it can be printed and made smaller.
type ferry struct {
	layout   kvcache.Layout
	p, d     side
	fencing  bool
	checksum bool
	// warm requests are served one after the other, then those of load all at once.
	warm, load []ask
	// weights make some things happen sooner than others.
	weights [kinds]int
	seed    uint64
}

// side is one of the engines.
type side struct {
	parallel    kvcache.Parallel
	blocks      []int
	grow, reuse bool
	chunk       int // tokens a pass, 0 for whole prompts
	pipelined   bool
	parts       int // transfer.SendConfig's PartBytes
	slots       int
}

// ask is a request. Its prompt is tokens, its answer follows from them.
type ask struct {
	tokens []int32
	max    int
	on     where
	abort  bool // at some time, on one of the engines that have it
}

type where uint8

const (
	onBoth   where = iota // prefill here and decode there
	wholeOnP              // served by one engine, which warms its prefix index
	wholeOnD
)

const (
	vocabulary = 3
	context    = 64
	headDim    = 4 // in f16 a token takes 8 bytes of a head
	tagBytes   = 2 * headDim
)

// drawFerry makes the case of a seed.
func drawFerry(base, number uint64) ferry {
	rng := rand.New(rand.NewPCG(base, number))
	c := ferry{seed: rng.Uint64(), fencing: coin(rng), checksum: one(rng, 4)}
	c.drawLayout(rng)
	for i := range c.weights {
		c.weights[i] = []int{1, 1, 1, 6, 40}[rng.IntN(5)]
	}
	c.p, c.d = drawSide(rng, c.layout), drawSide(rng, c.layout)
	c.p.pipelined = c.p.chunk > 0 && !one(rng, 4)
	c.p.parts = []int{0, 1, 1, 60, 300}[rng.IntN(5)]
	c.drawRequests(rng)
	c.drawPools(rng, &c.p, false)
	c.drawPools(rng, &c.d, true)
	return c
}

func coin(rng *rand.Rand) bool { return rng.IntN(2) == 0 }

func one(rng *rand.Rand, of int) bool { return rng.IntN(of) == 0 }

// drawLayout spreads the layers over the groups in any way, so that a stage's end cuts through
// some of them.
func (c *ferry) drawLayout(rng *rand.Rand) {
	c.layout = kvcache.Layout{
		BlockTokens: 1 + rng.IntN(5), KVHeads: 1 << rng.IntN(4), HeadDim: headDim, DType: kvcache.F16,
	}
	groups := 1 + rng.IntN(3)
	hybrid := one(rng, 8)
	for g := range groups {
		group := kvcache.LayerGroup{Window: []int{0, 0, 1, 2, 5, 9, 30}[rng.IntN(7)]}
		if hybrid && g == 0 {
			group = kvcache.LayerGroup{StateBytes: 2 * tagBytes}
		}
		c.layout.Groups = append(c.layout.Groups, group)
	}
	for layer := range groups + rng.IntN(3) {
		g := layer
		if layer >= groups {
			g = rng.IntN(groups)
		}
		c.layout.Groups[g].Layers = append(c.layout.Groups[g].Layers, layer)
	}
	// The layers of a group need not follow each other.
	if last := len(c.layout.Groups) - 1; last > 0 && coin(rng) {
		a, b := c.layout.Groups[0].Layers, c.layout.Groups[last].Layers
		a[0], b[0] = b[0], a[0]
		slices.Sort(a)
		slices.Sort(b)
	}
}

func layersOf(l kvcache.Layout) int {
	n := 0
	for _, g := range l.Groups {
		n += len(g.Layers)
	}
	return n
}

func drawSide(rng *rand.Rand, l kvcache.Layout) side {
	s := side{
		parallel: kvcache.Parallel{Tensor: 1 << rng.IntN(3), Pipeline: min(1+rng.IntN(3), layersOf(l))},
		grow:     coin(rng), reuse: !one(rng, 3), slots: 1 + rng.IntN(3),
	}
	if !one(rng, 5) {
		s.chunk = 1 + rng.IntN(10)
	}
	return s
}

// drawRequests makes prompts that begin like earlier ones, or like what was answered to them,
// and then go on alike or not.
func (c *ferry) drawRequests(rng *rand.Rand) {
	aborts := one(rng, 3)
	draw := func() ask {
		a := ask{tokens: c.drawPrompt(rng), max: 1 + rng.IntN(4)}
		if one(rng, 8) {
			a.max = 12
		}
		return a
	}
	for range rng.IntN(3) {
		a := draw()
		a.on = where(rng.IntN(3))
		c.warm = append(c.warm, a)
	}
	for range 1 + rng.IntN(4) {
		a := draw()
		a.abort = aborts && coin(rng)
		if one(rng, 4) {
			a.on = where(rng.IntN(3))
		}
		c.load = append(c.load, a)
	}
}

func (c *ferry) drawPrompt(rng *rand.Rand) []int32 {
	var tokens []int32
	earlier := slices.Concat(c.warm, c.load)
	if len(earlier) > 0 && !one(rng, 5) {
		all := newRequest("", earlier[rng.IntN(len(earlier))]).all
		tokens = slices.Clone(all[:1+rng.IntN(min(len(all), 24))])
	}
	for n := rng.IntN(20); len(tokens) == 0 || n > 0 && len(tokens) < 24; n-- {
		tokens = append(tokens, rng.Int32N(vocabulary))
	}
	return tokens
}

// drawPools gives room for everybody, or hardly for the biggest request alone.
func (c *ferry) drawPools(rng *rand.Rand, s *side, receives bool) {
	s.blocks = make([]int, len(c.layout.Groups))
	for g := range s.blocks {
		s.blocks[g] = 150 / c.layout.BlockTokens
	}
	if one(rng, 3) {
		return
	}
	for g := range s.blocks {
		s.blocks[g] = 1
		for !c.fits(s, receives) {
			s.blocks[g]++
		}
		// The others are big enough for now; this one is as small as can be, and a bit more.
		s.blocks[g] += rng.IntN(4)
	}
}

// fits says whether each request could be served with nobody else there.
func (c *ferry) fits(s *side, receives bool) bool {
	m := s.manager(c.layout)
	for _, a := range slices.Concat(c.warm, c.load) {
		d := kvcache.Demand{Prompt: len(a.tokens), Tokens: len(a.tokens) + a.max - 1}
		switch {
		case a.on == onBoth && receives:
			d.Arrives = d.Prompt
		case a.on == onBoth:
			d.Tokens = d.Prompt
		case (a.on == wholeOnD) != receives:
			continue
		}
		if m.Fits(d) != nil {
			return false
		}
	}
	return true
}

func (s *side) manager(l kvcache.Layout) kvcache.Manager {
	var m kvcache.Manager
	var err error
	if s.grow {
		m, err = kvcache.NewGrow(l, s.blocks, kvcache.Options{Chunk: s.chunk})
	} else {
		m, err = kvcache.NewReserve(l, s.blocks, kvcache.Options{})
	}
	if err != nil {
		panic(err)
	}
	return m
}

func (c ferry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tokens a block, %d heads, groups %+v, fencing %v, checksum %v, schedule %v by %d\n",
		c.layout.BlockTokens, c.layout.KVHeads, c.layout.Groups, c.fencing, c.checksum, c.weights, c.seed)
	fmt.Fprintf(&b, "prefill %+v\ndecode %+v\n", c.p, c.d)
	for i, a := range slices.Concat(c.warm, c.load) {
		at := "warm"
		if i >= len(c.warm) {
			at = "load"
		}
		fmt.Fprintf(&b, "%s r%d: %v and %d more, %s", at, i, a.tokens, a.max, [...]string{"on both", "whole on P", "whole on D"}[a.on])
		if a.abort {
			b.WriteString(", aborted")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
