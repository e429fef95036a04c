//go:build linux

package shm

import (
	"sync"
	"sync/atomic"

	"kvferry/wire"
)

// job is a part to copy.
type job interface{ run(w *worker) }

// flow is jobs in order. Flows take turns, a job each.
type flow struct {
	jobs   []job
	first  int // of jobs, what is not taken yet
	listed bool
	next   *flow
}

// schedule is the jobs of all peers, for the workers.
type schedule struct {
	mu         sync.Mutex
	wake       sync.Cond
	head, tail *flow
	closed     bool
}

func newSchedule() *schedule {
	s := &schedule{}
	s.wake.L = &s.mu
	return s
}

// push appends a job to its flow.
func (s *schedule) push(f *flow, j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(f.jobs) == cap(f.jobs) && f.first > 0 {
		n := copy(f.jobs, f.jobs[f.first:])
		clear(f.jobs[n:])
		f.jobs, f.first = f.jobs[:n], 0
	}
	f.jobs = append(f.jobs, j)
	if !f.listed {
		s.list(f)
	}
	s.wake.Signal()
}

func (s *schedule) list(f *flow) {
	f.listed, f.next = true, nil
	if s.tail == nil {
		s.head = f
	} else {
		s.tail.next = f
	}
	s.tail = f
}

// take waits for the job whose turn it is, or gives nil when there will be none.
func (s *schedule) take() job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.head == nil {
		if s.closed {
			return nil
		}
		s.wake.Wait()
	}
	f := s.head
	if s.head, f.listed = f.next, false; s.head == nil {
		s.tail = nil
	}
	j := f.jobs[f.first]
	f.jobs[f.first] = nil
	if f.first++; f.first < len(f.jobs) {
		s.list(f)
	} else {
		f.jobs, f.first = f.jobs[:0], 0
	}
	return j
}

func (s *schedule) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake.Broadcast()
}

// worker is one goroutine that copies, with its scratch memory.
type worker struct {
	ranges []wire.Range
	pairs  []pair
	fence  atomic.Uint64
}

// work runs jobs until there will be none.
func (s *schedule) work() {
	w := &worker{}
	for j := s.take(); j != nil; j = s.take() {
		j.run(w)
	}
}
