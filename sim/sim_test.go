package sim

import (
	"flag"
	"testing"
)

var (
	seeds = flag.Uint64("seeds", 1500, "how many seeds TestSeeds runs")
	first = flag.Uint64("first", 0, "the first of them")
)

func faults(t *testing.T, list string) Faults {
	t.Helper()
	f, err := ParseFaults(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// report fails the test with the smallest plan that fails like the first seed.
func report(t *testing.T, s Summary, on Faults) {
	t.Helper()
	if len(s.Failures) == 0 {
		return
	}
	f := s.Failures[0]
	small, bad := Shrink(Generate(f.Seed, on, Nodes{}))
	t.Fatalf("%d of %d seeds fail; seed %d: %v\nmade small:\n%s%v", len(s.Failures), s.Seeds, f.Seed, f.Violation, small, bad)
}

// Thousands of requests with every fault, and no wrong byte, leak or hang; every request ends
// once on every engine that had it. What the checkers look for is in check.go, grant.go,
// memory.go, pass.go and router.go.
//
// req: PIPE-13 PIPE-16 PIPE-18 PIPE-19 PIPE-28 PIPE-32
// req: LEASE-03 LEASE-04 LEASE-14 LEASE-15
func TestSeeds(t *testing.T) {
	on := faults(t, "all")
	n := *seeds
	if testing.Short() {
		n = min(n, 200)
	}
	s := Farm{First: *first, Seeds: n, Faults: on}.Run()
	report(t, s, on)
	if bad := s.Cover.Undeclared(); len(bad) > 0 {
		t.Errorf("moves that no machine should make: %v", bad)
	}
	if s.Served < s.Failed {
		t.Errorf("only %d requests are served and %d fail: the faults leave nothing to check", s.Served, s.Failed)
	}
	if all := len(Transitions()); n >= 1500 && len(s.Cover.Untaken()) > all/5 {
		t.Errorf("%d of %d transitions are untaken: %v", len(s.Cover.Untaken()), all, s.Cover.Untaken())
	}
}

// Without faults every request is served, in every shape of cluster.
func TestCalmSeeds(t *testing.T) {
	s := Farm{Seeds: 200}.Run()
	report(t, s, nil)
	if s.Failed > 0 || s.Served == 0 {
		t.Errorf("%d served, %d failed", s.Served, s.Failed)
	}
}

// Each fault alone: what it breaks is not hidden by another.
func TestSeedsOfEachFault(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 5
	}
	for _, name := range Names {
		on := faults(t, name)
		report(t, Farm{Seeds: n, Faults: on}.Run(), on)
	}
}

// The same seed gives the same run to the last event: 50 times over one after the other, and
// with others beside it.
func TestSameSeedSameRun(t *testing.T) {
	on := faults(t, "all")
	for seed := range uint64(8) {
		want := Run(Generate(seed, on, Nodes{}), Options{})
		for range 50 {
			got := Run(Generate(seed, on, Nodes{}), Options{Log: true, Trace: true})
			if got.Hash != want.Hash || got.Events != want.Events || got.Ended != want.Ended {
				t.Fatalf("seed %d: hash %016x after %d events, and before %016x after %d", seed, got.Hash, got.Events, want.Hash, want.Events)
			}
		}
		if other := Run(Generate(seed+100, on, Nodes{}), Options{}); other.Hash == want.Hash {
			t.Errorf("seeds %d and %d have the same hash", seed, seed+100)
		}
	}
	a, b := Farm{Seeds: 60, Faults: on}.Run(), Farm{Seeds: 60, Faults: on}.Run()
	if a.Hash != b.Hash || a.Events != b.Events {
		t.Errorf("two farms of the same seeds: %016x and %016x", a.Hash, b.Hash)
	}
}

// A cluster has as many engines as it is told to.
func TestNodesAreFixed(t *testing.T) {
	for seed := range uint64(20) {
		c := Generate(seed, nil, Nodes{Prefill: 3, Decode: 1}).Cluster
		if c.Prefill != 3 || c.Decode != 1 {
			t.Fatalf("seed %d: %d prefill and %d decode engines", seed, c.Prefill, c.Decode)
		}
	}
}
