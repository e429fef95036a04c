package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// drive sends the load until it is through or ctx ends, and gives record each answer.
type drive struct {
	o      Options
	server *server
	record *record
}

func (d *drive) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	next := d.source(ctx)
	if d.o.Rate == 0 {
		for range d.o.Concurrency {
			wg.Go(func() {
				for i, ok := next(); ok; i, ok = next() {
					d.one(ctx, i)
				}
			})
		}
		return
	}
	gaps := rand.New(rand.NewPCG(d.o.Seed, 1<<63))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		i, ok := next()
		if !ok {
			return
		}
		wg.Go(func() { d.one(ctx, i) })
		// Counted from when the last one was due, so that lateness does not lower the rate.
		due = due.Add(time.Duration(gaps.ExpFloat64() / d.o.Rate * float64(time.Second)))
		timer.Reset(time.Until(due))
	}
}

// source numbers the requests, until there are enough, the time is over or ctx ends.
func (d *drive) source(ctx context.Context) func() (int, bool) {
	var mu sync.Mutex
	next, began := 0, time.Now()
	return func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil,
			d.o.Requests > 0 && next >= d.o.Requests,
			d.o.Duration > 0 && time.Since(began) >= d.o.Duration:
			return 0, false
		}
		next++
		return next - 1, true
	}
}

func (d *drive) one(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	d.record.began()
	a := d.server.stream(ctx, d.o.question(i))
	d.record.ended(i, a, d.o.Check != "")
	if d.o.Done != nil {
		d.o.Done()
	}
}
