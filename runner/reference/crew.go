package reference

import (
	"sync"
	"sync/atomic"
)

// step is one piece of a parallel step: worker is the number of the worker that does it,
// item the number of the piece.
type step func(p *pass, worker, item int)

// crew is a fixed set of workers that do the pieces of one step after another. Which
// worker does which piece has no effect on results.
type crew struct {
	workers int
	start   []chan struct{} // one a helper
	done    sync.WaitGroup

	step  step
	pass  *pass
	items int64
	next  atomic.Int64
}

// newCrew makes a crew of n workers: n-1 goroutines and the caller.
func newCrew(n int) *crew {
	c := &crew{workers: n}
	for w := 1; w < n; w++ {
		start := make(chan struct{}, 1)
		c.start = append(c.start, start)
		go func() {
			for range start {
				c.work(w)
				c.done.Done()
			}
		}()
	}
	return c
}

// run does items pieces of a step and returns when all are done.
func (c *crew) run(s step, p *pass, items int) {
	helpers := min(len(c.start), items-1)
	c.step, c.pass, c.items = s, p, int64(items)
	c.next.Store(0)
	if helpers > 0 {
		c.done.Add(helpers)
		for _, start := range c.start[:helpers] {
			start <- struct{}{}
		}
	}
	c.work(0)
	c.done.Wait()
}

func (c *crew) work(worker int) {
	for {
		i := c.next.Add(1) - 1
		if i >= c.items {
			return
		}
		c.step(c.pass, worker, int(i))
	}
}

func (c *crew) close() {
	for _, start := range c.start {
		close(start)
	}
}
