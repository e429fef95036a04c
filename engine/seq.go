package engine

import (
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
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
	evicted                 // prefill was over, nobody had registered, and the blocks are taken back
	ended                   // nothing more will be computed
)

// seq is a request in the engine, from Submit until its blocks are released.
type seq struct {
	req    Request
	number uint64 // order of arrival
	state  state
	hold   *kvcache.Holding // nil while it has no blocks
	fill   []int32          // the tokens to compute before decoding: the prompt, or more after a preemption
	done   int              // of them computed, or cached
	cached int              // prompt tokens that were cached when it was first admitted
	output []int32          // tokens drawn
	stop   stopper
	inPass bool
	// finished: Finish was given. The blocks may still be in use.
	finished bool
	send     *transfer.Send
	recv     *transfer.Receive
	offer    *transfer.Offer
	pull     *transfer.Pull
	stats    transfer.Stats
	started  bool // the first pass over the prompt went out, at began
	began    int64
	prefill  int64  // how long the prompt's computing took
	task     int    // of recv
	epoch    uint64 // of recv
	// slot is the request's lease slot, or negative, and nonce what is in it now.
	slot  int
	nonce uint64
	// arriving is how many of the prompt's tokens a handle can bring; local says that nothing
	// arrives any more, and base where computing begins behind what is here.
	arriving  int
	reads     bool // the receiver that registered reads what we announce
	local     bool
	base      int
	lease     wire.Lease // that we claim of holder
	holder    wire.Life
	claimed   bool  // it is in the set that is renewed
	dismissed bool  // the holder was told that we do not want it
	letGo     bool  // release it when its pull has ended
	wake      int64 // the earliest timer that is set for it
}

func (s *seq) demand() kvcache.Demand {
	d := kvcache.Demand{Prompt: len(s.fill), Tokens: len(s.req.Tokens)}
	if s.req.Leg != PrefillLeg {
		d.Tokens += s.req.MaxTokens - 1 // the last token's KV is never stored
	}
	// What was received and then lost to others is computed here.
	d.Arrives = s.arrives()
	return d
}

// arrives is how many of the prompt's tokens have their KV come from a peer.
func (s *seq) arrives() int {
	switch {
	case s.local || len(s.output) > 0:
		return 0
	case s.req.Pull != nil:
		return s.arriving
	case s.req.Leg == DecodeLeg:
		return len(s.req.Tokens)
	}
	return 0
}

// stored are the tokens whose KV a decoding request has: all but the last one drawn.
func (s *seq) stored() []int32 {
	if len(s.output) == 0 {
		return s.fill[:s.done]
	}
	return slices.Concat(s.req.Tokens, s.output[:len(s.output)-1])
}

// tables are the request's block tables as they are now.
func (s *seq) tables() []kvcache.BlockTable { return slices.Clone(s.hold.Tables) }

// chunk is the next n tokens of the prompt, as the transfer wants to know them.
func (s *seq) chunk(n int) kvcache.Chunk {
	return kvcache.Chunk{
		Start: s.done, End: s.done + n,
		First: s.done == s.base, Last: s.done+n == len(s.fill),
	}
}

// deadline is when the request's session wants to be woken.
func (s *seq) deadline() int64 {
	switch {
	case s.send != nil:
		return s.send.Deadline()
	case s.recv != nil:
		return s.recv.Deadline()
	case s.pull != nil:
		return s.pull.Deadline()
	}
	return transfer.Never
}

func (s *seq) isEnd(ends []int32, token int32) bool {
	return !s.req.IgnoreEOS && slices.Contains(ends, token)
}
