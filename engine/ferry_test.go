package engine_test

import (
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"testing"
	"time"
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
			cases = 20_000
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
