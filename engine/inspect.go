package engine

import (
	"cmp"
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
)

// Held is what an engine keeps of one request. It is for whoever watches the engine from
// outside, and is not changed through it.
type Held struct {
	Request string
	State   string
	// Tables are the request's blocks, nil while it has none, and Copies what it holds beside
	// them until a pass has copied it.
	Tables []kvcache.BlockTable
	Copies []kvcache.BlockCopy
	// Send and Receive are the request's sessions, nil where it has none.
	Send    *transfer.Send
	Receive *transfer.Receive
	Offer   *transfer.Offer
	Pull    *transfer.Pull
}

// Held lists every request that the engine knows, in order of arrival.
func (e *Engine) Held() []Held {
	seqs := make([]*seq, 0, len(e.byID))
	for _, s := range e.byID {
		seqs = append(seqs, s)
	}
	slices.SortFunc(seqs, func(a, b *seq) int { return cmp.Compare(a.number, b.number) })
	out := make([]Held, len(seqs))
	for i, s := range seqs {
		out[i] = Held{Request: s.req.ID, State: s.state.String(), Send: s.send, Receive: s.recv, Offer: s.offer, Pull: s.pull}
		if s.hold != nil {
			out[i].Tables, out[i].Copies = s.hold.Tables, s.hold.Copies
		}
	}
	return out
}

func (s state) String() string {
	return [...]string{"waiting", "receiving", "prefilling", "decoding", "computed", "evicted", "ended"}[s]
}

// Watched is one step of a session: where it stood, by its Phase, what happened, and where it
// stands.
type Watched struct {
	Machine string // send, receive, offer, pull
	Request string
	From    string // empty when the session is made
	// Event is a transfer.SendEvent or a transfer.ReceiveEvent, or nil for its making and for
	// Tick.
	Event any
	To    string
}

// watched tells of a step, if anybody wants to know.
func (e *Engine) watched(machine, request, from string, event any, to string) {
	if e.cfg.Watch != nil {
		e.cfg.Watch(Watched{Machine: machine, Request: request, From: from, Event: event, To: to})
	}
}
