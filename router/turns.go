package router

import (
	"container/list"
	"encoding/json"
)

// maxTurnBytes bounds what the handles of all turns take, in bytes.
const maxTurnBytes = 64 << 20

// Turn is where the KV of a conversation's turn is held.
type Turn struct {
	// Decode is the holder's place in the pool, Life its life when it gave the handle.
	Decode int
	Life   string
	// Handle is kv_transfer_params, opaque here.
	Handle json.RawMessage
}

// Turns remembers, for so many conversations, where the KV of the last turn is. It forgets the
// one that was least recently heard of first, and may be wrong: engines check what they are
// told, and the holder lets go by itself. LEASE-20
type Turns struct {
	most  int
	bytes int
	// order has *remembered, the newest first.
	order list.List
	known map[link]*list.Element
	// tails says, of the last whole piece of each conversation that is known, how many of them
	// have so much text behind it.
	tails map[link]*[piece]int
}

type remembered struct {
	turn Turn
	// key is of the whole text; last of its whole pieces, with tail bytes behind them.
	key, last link
	tail      int
}

// NewTurns remembers at most so many conversations.
func NewTurns(most int) *Turns {
	return &Turns{most: most, known: map[link]*list.Element{}, tails: map[link]*[piece]int{}}
}

// Len is how many conversations are remembered.
func (t *Turns) Len() int { return t.order.Len() }

// Put remembers that the turn after c is held. Of the same conversation it is the only one.
func (t *Turns) Put(c Conversation, turn Turn) {
	last, tail := c.whole()
	key := last.next(tail)
	if old, ok := t.known[key]; ok {
		t.drop(old)
	}
	if t.most < 1 || len(turn.Handle) > maxTurnBytes {
		return
	}
	t.known[key] = t.order.PushFront(&remembered{turn: turn, key: key, last: last, tail: len(tail)})
	if t.tails[last] == nil {
		t.tails[last] = new([piece]int)
	}
	t.tails[last][len(tail)]++
	t.bytes += len(turn.Handle)
	for t.order.Len() > t.most || t.bytes > maxTurnBytes {
		t.drop(t.order.Back())
	}
}

// Take gives the longest turn that c continues, and forgets it: it is used once.
func (t *Turns) Take(c Conversation) (Turn, bool) {
	for i := len(c.links) - 1; i >= 0; i-- {
		tails := t.tails[c.links[i]]
		if tails == nil {
			continue
		}
		text := c.text[i*piece:]
		for n := min(piece-1, len(text)); n >= 0; n-- {
			if tails[n] == 0 {
				continue
			}
			if e, ok := t.known[c.links[i].next(text[:n])]; ok {
				turn := e.Value.(*remembered).turn
				t.drop(e)
				return turn, true
			}
		}
	}
	return Turn{}, false
}

func (t *Turns) drop(e *list.Element) {
	r := t.order.Remove(e).(*remembered)
	delete(t.known, r.key)
	t.bytes -= len(r.turn.Handle)
	tails := t.tails[r.last]
	tails[r.tail]--
	if *tails == ([piece]int{}) {
		delete(t.tails, r.last)
	}
}
