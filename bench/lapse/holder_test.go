package lapse_test

import (
	"fmt"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/agent/cut"
	"kvferry/wire"
)

// point is where in a read the decode engine is held.
type point string

const (
	never    point = "never"             // it is not held: nothing lapses
	before   point = "before the read"   // no byte is read yet
	during   point = "during the read"   // so many bytes of the blocks are here
	landed   point = "after the blocks"  // the last byte is here, the slot is not read yet
	proved   point = "after the slot"    // the slot is read too, the engine does not know it yet
	reported point = "before the notice" // the engine uses the KV, and the prefill engine is not told
)

// order is what the decode engine's agent is to do with the next read.
type order struct {
	Point point
	Cut   uint64 // bytes to read before it is held, for during
}

// partID is the number of the first part of a read that is cut in two: of neither a read of
// blocks nor one of slots.
const partID = 1 << 62

// holder is the transfer agent of a decode engine that is held at a chosen point of a read. No
// heartbeat of it arrives anywhere.
type holder struct {
	agent.Agent
	events chan agent.Event
	say    func(what string)
	resume chan struct{}

	mu     sync.Mutex
	order  order
	rest   agent.Transfer // of a read that is cut
	blocks uint64         // the read of blocks that is out
	began  map[uint64]time.Time
	took   timing
}

// timing is how long the parts of a pull took, and how many bytes its blocks have.
type timing struct {
	Start                time.Time
	Bytes                uint64
	Blocks, Slot, Pulled time.Duration
}

func hold(a agent.Agent, say func(string)) *holder {
	h := &holder{
		Agent: a, events: make(chan agent.Event), say: say, resume: make(chan struct{}),
		order: order{Point: never}, began: map[uint64]time.Time{},
	}
	go h.relay()
	return h
}

func (h *holder) Events() <-chan agent.Event { return h.events }

func (h *holder) set(o order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.order, h.took = o, timing{}
}

// at says whether the engine is to be held here, and that only once.
func (h *holder) at(p point) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.order.Point != p {
		return false
	}
	h.order.Point = never
	return true
}

// wait says that the engine is held, and returns when it may go on.
func (h *holder) wait() {
	h.say("held")
	<-h.resume
}

func ofSlots(t agent.Transfer) bool { return t.Local[t.LocalIdx[0]].Length == 8 }

func (h *holder) Read(t agent.Transfer) {
	h.mu.Lock()
	h.began[t.ID] = time.Now()
	if ofSlots(t) {
		h.mu.Unlock()
		h.Agent.Read(t)
		return
	}
	h.blocks, h.took.Start, h.took.Bytes = t.ID, time.Now(), cut.Bytes(&t)
	n := h.order.Cut
	h.mu.Unlock()
	switch {
	case h.at(before):
		go func() {
			h.wait()
			h.Agent.Read(t)
		}()
	case h.at(during):
		first, rest := split(t, n)
		first.ID = partID
		h.mu.Lock()
		h.rest = rest
		h.mu.Unlock()
		h.Agent.Read(first)
	default:
		h.Agent.Read(t)
	}
}

// split cuts a read in two, the first of so many bytes.
func split(t agent.Transfer, n uint64) (first, rest agent.Transfer) {
	first, rest = t, t
	for _, p := range []*agent.Transfer{&first, &rest} {
		p.Local, p.LocalIdx, p.Remote, p.RemoteIdx = nil, nil, nil, nil
	}
	add := func(to *agent.Transfer, l, r agent.Desc, from, length uint64) {
		if length == 0 {
			return
		}
		l.Offset, l.Length = l.Offset+from, length
		r.Offset, r.Length = r.Offset+from, length
		to.LocalIdx, to.RemoteIdx = append(to.LocalIdx, int32(len(to.Local))), append(to.RemoteIdx, int32(len(to.Remote)))
		to.Local, to.Remote = append(to.Local, l), append(to.Remote, r)
	}
	for i := range t.LocalIdx {
		l, r := t.Local[t.LocalIdx[i]], t.Remote[t.RemoteIdx[i]]
		k := min(n, l.Length)
		add(&first, l, r, 0, k)
		add(&rest, l, r, k, l.Length-k)
		n -= k
	}
	return first, rest
}

func (h *holder) Notify(peer wire.Life, payload []byte) {
	m, err := wire.DecodeMessage(payload)
	if err != nil {
		panic(err) // the engine's own
	}
	switch m.(type) {
	case *wire.Heartbeat:
		return
	case *wire.Complete:
		h.completes()
		if h.at(reported) {
			kept := append([]byte(nil), payload...)
			go func() {
				h.wait()
				h.Agent.Notify(peer, kept)
			}()
			return
		}
	}
	h.Agent.Notify(peer, payload)
}

// completes tells how long the pull took.
func (h *holder) completes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.took.Start.IsZero() {
		h.took.Pulled = time.Since(h.took.Start)
		h.say(fmt.Sprintf("took %d %d %d %d", h.took.Bytes, int64(h.took.Blocks), int64(h.took.Slot), int64(h.took.Pulled)))
		h.took = timing{}
	}
}

// relay hands on the agent's events, those of reads at their time.
func (h *holder) relay() {
	defer close(h.events)
	for ev := range h.Agent.Events() {
		if d, ok := ev.(agent.Done); ok && !h.done(d) {
			continue
		}
		h.events <- ev
	}
}

// done notes the end of a read, and says whether the engine is to hear of it.
func (h *holder) done(d agent.Done) bool {
	h.mu.Lock()
	rest, blocks := h.rest, d.ID == h.blocks
	if took := time.Since(h.began[d.ID]); blocks {
		h.took.Blocks = took
	} else {
		h.took.Slot = took
	}
	delete(h.began, d.ID)
	h.mu.Unlock()
	switch {
	case d.ID == partID && d.Err != nil:
		panic(d.Err)
	case d.ID == partID:
		h.wait()
		h.Agent.Read(rest)
		return false
	case blocks && h.at(landed), !blocks && h.at(proved):
		h.wait()
	}
	return true
}
