package load

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// checkers is how many answers are checked at once in an open loop.
const checkers = 16

// checked is what came of comparing answers.
type checked struct {
	mu        sync.Mutex
	right     int
	wrong     []Wrong
	wrongs    int
	unchecked int
	errors    map[string]*Errors
}

// maxWrong is how many wrong answers are shown; all are counted.
const maxWrong = 10

// check asks the server whose answers are right for each that was heard, and compares. What
// came of an answer that broke off must be the right one's beginning.
func check(ctx context.Context, o Options, right *server, list []heard) *checked {
	c := &checked{errors: map[string]*Errors{}}
	work := make(chan heard, len(list))
	for _, h := range list {
		work <- h
	}
	close(work)
	workers := checkers
	if o.Rate == 0 {
		workers = o.Concurrency
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for h := range work {
				one, cancel := context.WithTimeout(ctx, o.Timeout)
				c.compare(h, right.whole(one, o.question(h.index)))
				cancel()
			}
		})
	}
	every(o, func() string { return c.progress(len(list)) }, wg.Wait)
	return c
}

func (c *checked) compare(h heard, want answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case want.failure != nil:
		c.unchecked++
		if !want.failure.given {
			addError(c.errors, want.failure)
		}
	case h.broken && strings.HasPrefix(want.text, h.text),
		!h.broken && h.text == want.text && h.reason == want.reason:
		c.right++
	default:
		c.wrongs++
		if len(c.wrong) < maxWrong {
			c.wrong = append(c.wrong, difference(h, want))
		}
	}
}

// difference shows two answers from a little before where they part.
func difference(h heard, want answer) Wrong {
	at := 0
	for at < len(h.text) && at < len(want.text) && h.text[at] == want.text[at] {
		at++
	}
	const before, length = 10, 60
	show := func(s, reason string) string {
		from := min(max(0, at-before), len(s))
		return fmt.Sprintf("%q (%s)", s[from:min(len(s), from+length)], reason)
	}
	reason := h.reason
	if h.broken {
		reason = "broken off"
	}
	return Wrong{Request: h.index, At: at, Got: show(h.text, reason), Want: show(want.text, want.reason)}
}

func (c *checked) progress(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d of %d answers checked, %d wrong", c.right+c.wrongs+c.unchecked, n, c.wrongs)
}

// sayInterval is between two lines of progress.
const sayInterval = time.Second

// every says a line now and then while wait waits.
func every(o Options, line func() string, wait func()) {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	ticker := time.NewTicker(sayInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			o.say("%s", line())
			return
		case <-ticker.C:
			o.say("%s", line())
		}
	}
}
