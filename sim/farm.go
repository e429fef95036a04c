package sim

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Farm runs many seeds, each on one goroutine, on all cores.
type Farm struct {
	First, Seeds uint64
	Faults       Faults
	Nodes        Nodes
	// Progress, when not nil, is told now and then how many seeds are done and how many of
	// them failed. It may be called by several goroutines at once.
	Progress func(done, failed uint64)
}

// Failure is a seed that broke an invariant.
type Failure struct {
	Seed      uint64
	Violation *Violation
}

// Summary is what came of all seeds.
type Summary struct {
	Seeds          uint64
	Events         uint64
	Served, Failed uint64 // requests
	Struck         uint64 // faults
	Virtual        int64  // nanoseconds
	Hash           uint64 // of all runs, whatever their order
	Cover          *Coverage
	Failures       []Failure // by seed
}

// maxFailures ends a farm early: more of them say nothing new.
const maxFailures = 20

// Run runs the seeds.
func (f Farm) Run() Summary {
	var next, failed atomic.Uint64
	var mu sync.Mutex
	total := Summary{Cover: newCoverage()}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			part := Summary{Cover: newCoverage()}
			for failed.Load() < maxFailures {
				i := next.Add(1) - 1
				if i >= f.Seeds {
					break
				}
				if !part.run(Generate(f.First+i, f.Faults, f.Nodes)) {
					failed.Add(1)
				}
				if f.Progress != nil && (i+1)%500 == 0 {
					f.Progress(i+1, failed.Load())
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(part)
		})
	}
	wg.Wait()
	slices.SortFunc(total.Failures, func(a, b Failure) int {
		if a.Seed < b.Seed {
			return -1
		}
		return 1
	})
	return total
}

func (s *Summary) run(p Plan) bool {
	o := Run(p, Options{})
	s.Seeds++
	s.Events += uint64(o.Events)
	s.Served += uint64(o.Served)
	s.Failed += uint64(o.Failed)
	s.Struck += uint64(o.Faults)
	s.Virtual += o.Ended
	s.Hash ^= mix2(p.Seed, o.Hash)
	s.Cover.Add(o.Cover)
	if o.Violation != nil {
		s.Failures = append(s.Failures, Failure{p.Seed, o.Violation})
	}
	return o.Violation == nil
}

func (s *Summary) add(o Summary) {
	s.Seeds += o.Seeds
	s.Events += o.Events
	s.Served += o.Served
	s.Failed += o.Failed
	s.Struck += o.Struck
	s.Virtual += o.Virtual
	s.Hash ^= o.Hash
	s.Cover.Add(o.Cover)
	s.Failures = append(s.Failures, o.Failures...)
}
