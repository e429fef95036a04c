package engine_test

import (
	"fmt"
	"slices"
	"strings"
)

// shrink leaves out and simplifies what it can, and gives what still fails, with its events.
func (c *ferry) shrink(a *arena) string {
	fails := func(c *ferry) bool {
		for range 10 {
			if c.run(a, new([kindsOfSight]int), quiet) != nil {
				return true
			}
			c.seed++
		}
		return false
	}
	small := *c
	for again := true; again; {
		again = false
		for _, s := range small.simpler() {
			if fails(&s) {
				small, again = s, true
				break
			}
		}
	}
	var events []string
	err := small.run(a, new([kindsOfSight]int), func(format string, args ...any) {
		events = append(events, fmt.Sprintf(format, args...))
	})
	return fmt.Sprintf("%v%s\n%v", small, strings.Join(events[max(0, len(events)-40):], "\n"), err)
}

// simpler are the cases with one thing less.
func (c *ferry) simpler() []ferry {
	var out []ferry
	with := func(change func(*ferry)) {
		s := *c
		s.warm, s.load = slices.Clone(c.warm), slices.Clone(c.load)
		s.p.blocks, s.d.blocks = slices.Clone(c.p.blocks), slices.Clone(c.d.blocks)
		s.layout.Groups = slices.Clone(c.layout.Groups)
		change(&s)
		if fmt.Sprint(s) != fmt.Sprint(*c) && s.fits(&s.p, false) && s.fits(&s.d, true) {
			out = append(out, s)
		}
	}
	for i := range c.warm {
		with(func(s *ferry) { s.warm = slices.Delete(s.warm, i, i+1) })
	}
	for i := range c.load {
		with(func(s *ferry) { s.load = slices.Delete(s.load, i, i+1) })
	}
	for _, pick := range []func(*ferry) *side{func(s *ferry) *side { return &s.p }, func(s *ferry) *side { return &s.d }} {
		with(func(s *ferry) { pick(s).parallel.Tensor = 1 })
		with(func(s *ferry) { pick(s).parallel.Pipeline = 1 })
		with(func(s *ferry) { pick(s).reuse = false })
		with(func(s *ferry) { pick(s).grow = false })
		with(func(s *ferry) { pick(s).pipelined = false })
		with(func(s *ferry) { pick(s).parts = 0 })
		for g := range c.layout.Groups {
			with(func(s *ferry) { pick(s).blocks[g] = 150 / s.layout.BlockTokens })
		}
	}
	with(func(s *ferry) { s.checksum = false })
	with(func(s *ferry) { s.layout.KVHeads = max(1, s.layout.KVHeads/2) })
	for g := range c.layout.Groups {
		with(func(s *ferry) { s.layout.Groups[g].Window = 0 })
	}
	for _, list := range []func(*ferry) []ask{func(s *ferry) []ask { return s.warm }, func(s *ferry) []ask { return s.load }} {
		for i := range list(c) {
			with(func(s *ferry) { list(s)[i].abort = false })
			with(func(s *ferry) { list(s)[i].max = max(1, list(s)[i].max/2) })
			with(func(s *ferry) { a := list(s); a[i].tokens = a[i].tokens[:max(1, len(a[i].tokens)-1)] })
		}
	}
	return out
}
