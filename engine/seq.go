package engine

import (
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
)

// state is the compute phase of a request. Whether a transfer is going on is another
// question, which its session answers.
type state uint8

const (
	waiting    state = iota // for blocks and a compute slot
	receiving               // its KV is on the way
	prefilling              // chunks of its prompt are computed
	decoding                // tokens are computed
	computed                // prefill is over; the compute slot is given back
	ended                   // nothing more will be computed
)

// seq is a request in the engine, from Submit until its blocks are released.
type seq struct {
	req    Request
	number uint64 // order of arrival
	state  state
	tables []kvcache.BlockTable
	done   int     // prompt tokens computed
	output []int32 // tokens drawn
	stop   stopper
	inPass bool
	// finished: Finish was given. The blocks may still be in use.
	finished bool
	send     *transfer.Send
	recv     *transfer.Receive
	stats    transfer.Stats
	began    int64  // when the first pass over the prompt went out
	prefill  int64  // how long the prompt's computing took
	task     int    // of recv
	epoch    uint64 // of recv
	wake     int64  // the earliest timer that is set for it
}

func (s *seq) demand() kvcache.Demand {
	d := kvcache.Demand{Prompt: len(s.req.Tokens), Tokens: len(s.req.Tokens)}
	if s.req.Leg != PrefillLeg {
		d.Tokens += s.req.MaxTokens - 1 // the last token's KV is never stored
	}
	d.Received = s.req.Leg == DecodeLeg
	return d
}

// chunk is the next n tokens of the prompt, as the transfer wants to know them.
func (s *seq) chunk(n int) kvcache.Chunk {
	return kvcache.Chunk{
		Start: s.done, End: s.done + n,
		First: s.done == 0, Last: s.done+n == len(s.req.Tokens),
	}
}

// deadline is when the request's session wants to be woken.
func (s *seq) deadline() int64 {
	switch {
	case s.send != nil:
		return s.send.Deadline()
	case s.recv != nil:
		return s.recv.Deadline()
	}
	return transfer.Never
}

func (s *seq) isEnd(ends []int32, token int32) bool {
	return !s.req.IgnoreEOS && slices.Contains(ends, token)
}
