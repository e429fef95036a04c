package mem

import (
	"errors"
	"fmt"
	"sync"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/agent/fair"
)

// pair is what two agents share while they are up for each other.
type pair struct {
	ends [2]*end
	wg   sync.WaitGroup // the ends' goroutines
	done chan struct{}  // closed when it ends
	gone chan struct{}  // closed when both were told so

	mu    sync.Mutex
	by    *end // who ended it
	cause error
}

// end is one side of a pair, with the transfers that it began.
type end struct {
	a    *Agent
	pair *pair
	wake *sync.Cond // of the pair's lock, as is what follows
	jobs fair.Queue[flowKey, *op]
}

// flowKey names what goes in order: an epoch's writes, or one read.
type flowKey struct {
	read  bool
	epoch uint64
}

// op is a transfer in flight.
type op struct {
	kind string // write, read
	t    *agent.Transfer
	cut  *cut.Cutter
}

func newPair(a, b *Agent) *pair {
	p := &pair{done: make(chan struct{}), gone: make(chan struct{})}
	for i, who := range []*Agent{a, b} {
		p.ends[i] = &end{a: who, pair: p, wake: sync.NewCond(&p.mu)}
	}
	return p
}

func (p *pair) start() {
	for _, e := range p.ends {
		p.wg.Go(func() { e.carry() })
		e.a.wg.Add(1)
	}
	go func() {
		p.wg.Wait()
		p.ends[0].a.o.Network.part(p)
		p.ends[0].a.wg.Done()
		p.ends[1].a.wg.Done()
	}()
}

// fail ends the pair; the first cause counts.
func (p *pair) fail(by *end, cause error) {
	if cause == nil {
		cause = errors.New("dropped")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return
	}
	p.by, p.cause = by, cause
	close(p.done)
	p.ends[0].wake.Broadcast()
	p.ends[1].wake.Broadcast()
}

func (p *pair) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause != nil
}

// causeFor is why the pair ended, as an end sees it.
func (p *pair) causeFor(e *end) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.causeLocked(e)
}

func (p *pair) causeLocked(e *end) error {
	if p.by == e {
		return p.cause
	}
	return fmt.Errorf("the peer says: %s", p.cause)
}
