package engine_test

import (
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/transfer"
)

var (
	ferrySeed  = flag.Uint64("ferry.seed", 0, "seed of TestFerry's cases; 0 draws one")
	ferryFirst = flag.Uint64("ferry.first", 0, "first of TestFerry's cases")
	ferryCases = flag.Uint64("ferry.cases", 0, "number of TestFerry's cases; 0 is as many as the run has time for")
)

// TestFerry carries the KV of random requests between two engines of random geometry: prompt,
// chunks, tokens a block, windows, a recurrent group, prefixes that either side has from
// earlier requests and that part anywhere, ranks and stages on either side, heads that are
// shared out or replicated, either manager of the pools, pools so small that requests are
// preempted and finished prefills evicted, chunks or the whole prompt at once, with checksums
// or without, and aborts in the middle of it.
//
// Every rank has pools of real bytes. The oracle shares no code with what decides which bytes
// go where: it knows each byte of the KV from the prompt alone. When a decode begins, all that
// its first token sees is right on every rank; what was due arrived once, and nothing else was
// written. No time passes, so nothing may need a time-out to end.
//
// req: PIPE-02
// req: PIPE-03
// req: PIPE-04
// req: PIPE-05
// req: PIPE-06
// req: PIPE-07
// req: PIPE-08
// req: PIPE-09
// req: PIPE-10
// req: PIPE-13
// req: PIPE-26
// req: PIPE-30
// req: PIPE-31
// req: PIPE-32
// req: PIPE-35
// req: PIPE-36
// req: SERVE-02
// case: 07
// case: 09
// case: 18
// case: 19
func TestFerry(t *testing.T) {
	base, cases := *ferrySeed, *ferryCases
	if base == 0 {
		base = uint64(time.Now().UnixNano())
	}
	if cases == 0 {
		switch {
		case testing.Short() || raceEnabled:
			cases = 3_000
		default:
			cases = 100_000
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // the cases leave little behind, in many pieces
	const shards = 8
	seen := make([][kindsOfSight]int, shards)
	t.Run("cases", func(t *testing.T) {
		for shard := range uint64(shards) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				var a arena
				for number := *ferryFirst + shard; number < *ferryFirst+cases; number += shards {
					c := drawFerry(base, number)
					if err := c.run(&a, &seen[shard], quiet); err != nil {
						small := c.shrink(&a)
						t.Fatalf("-ferry.seed=%d -ferry.first=%d -ferry.cases=1 fails: %v\n%v\nas small as it gets:\n%v",
							base, number, err, c, small)
					}
				}
			})
		}
	})
	var sum [kindsOfSight]int
	for _, s := range seen {
		for i, n := range s {
			sum[i] += n
		}
	}
	for i, n := range sum {
		if n == 0 && cases >= 3_000 && !t.Failed() {
			t.Errorf("of %d cases none shows %s", cases, sight(i))
		}
		t.Logf("%7d %s", n, sight(i))
	}
}

func quiet(string, ...any) {}

// run plays a case, and gives what failed.
func (c *ferry) run(a *arena, seen *[kindsOfSight]int, trace func(string, ...any)) error {
	return guarded(func() { newWorld(c, a, seen, trace).play() })
}

// guarded turns a failure, or any other panic, into an error.
func guarded(play func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(r))
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	play()
	return nil
}

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

// sight is something that the cases must have shown.
type sight uint8

const (
	hitOnP sight = iota
	hitOnD
	hitOnBoth
	hitInsideBlock
	wholePromptOnD
	chunkedTransfer
	emptyLast
	lateRegistration
	preemptedOnP
	preemptedAfterSlices
	evictedOnP
	computedAgain
	preemptedOnD
	replicatedOnP
	replicatedOnD
	stagesOnP
	stagesOnD
	otherGeometry
	windowed
	recurrent
	growToReserve
	reserveToGrow
	sliceVerified
	abortInFlight
	writeRefused
	kindsOfSight
)

func (s sight) String() string {
	return [...]string{
		"a prefix hit on P", "a prefix hit on D", "a prefix hit on both", "a hit that ends inside a block",
		"a whole prompt that D has", "a transfer in several slices", "a last slice that brings nothing",
		"a registration after the last chunk", "a preemption on P", "a preemption on P after slices were sent",
		"an eviction of a finished prefill", "which is computed again", "a preemption on D", "heads on several ranks of P", "heads on several ranks of D",
		"several stages on P", "several stages on D", "geometries that differ", "a window group", "a recurrent group",
		"grow to reserve", "reserve to grow", "a slice that is verified", "an abort while a copy is in flight", "a write that is refused",
	}[s]
}

func (w *world) saw(s sight) { w.seen[s]++ }

func (w *world) sawIf(s sight, is bool) {
	if is {
		w.seen[s]++
	}
}

func (w *world) sights() {
	c := w.c
	w.sawIf(replicatedOnP, c.p.parallel.Tensor > c.layout.KVHeads)
	w.sawIf(replicatedOnD, c.d.parallel.Tensor > c.layout.KVHeads)
	w.sawIf(stagesOnP, c.p.parallel.Pipeline > 1)
	w.sawIf(stagesOnD, c.d.parallel.Pipeline > 1)
	w.sawIf(otherGeometry, c.p.parallel != c.d.parallel)
	w.sawIf(growToReserve, c.p.grow && !c.d.grow)
	w.sawIf(reserveToGrow, !c.p.grow && c.d.grow)
	for _, g := range c.layout.Groups {
		w.sawIf(windowed, g.Window > 0)
		w.sawIf(recurrent, g.Recurrent())
	}
}

func (w *world) sawPass(h *host, r *request, work engine.Work) {
	e := h.ends[r.id]
	if e.first < 0 {
		e.first = work.Start
		w.sawIf(hitOnP, h == w.p && work.Start > 0)
		w.sawIf(hitInsideBlock, len(work.Copies) > 0)
	}
	w.sawIf(preemptedOnD, e.leg == engine.DecodeLeg && work.Start < r.prompt())
}

func (w *world) sawRegister(e *epoch) {
	w.sawIf(hitOnD, e.cached > 0)
	w.sawIf(hitOnBoth, e.cached > 0 && w.p.ends[e.r.id] != nil && w.p.ends[e.r.id].first > 0)
	w.sawIf(wholePromptOnD, e.cached == e.r.prompt())
}

func (w *world) sawCopy(f *flight) {
	w.sawIf(chunkedTransfer, f.copy.Slice > 0)
	w.sawIf(emptyLast, len(f.blocks) == 0 && f.copy.Notice.Last)
}

func (w *world) watch(e engine.Watched) {
	switch e.Event.(type) {
	case transfer.TakenBack:
		w.sawIf(evictedOnP, e.To == "evicted")
		w.sawIf(preemptedOnP, e.To != "evicted")
		w.sawIf(preemptedAfterSlices, e.To == "flowing")
	case transfer.Registered:
		w.sawIf(lateRegistration, e.From == "offered")
		w.sawIf(computedAgain, e.From == "evicted" && e.To != "released")
	}
	w.trace("%s of %s: %T, %s to %s", e.Machine, e.Request, e.Event, e.From, e.To)
}
