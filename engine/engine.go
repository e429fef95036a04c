package engine

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/lease"
	"kvferry/transfer"
	"kvferry/wire"
)

// Config fixes an engine. All of it is decided before the engine is made.
type Config struct {
	Role   Role
	Layout kvcache.Layout
	// Parallel is how the model is cut into ranks; zero is one rank.
	Parallel kvcache.Parallel
	// Blocks[g] is the size of the pool of layer group g.
	Blocks []int
	// Grow takes blocks as they are needed and not all at admission. Reuse keeps a prefix
	// index, salted with Salt. Freed is told of blocks whose content nobody can want.
	Grow, Reuse bool
	Salt        string
	Freed       func(group int, b kvcache.BlockID)
	// MaxSeqs is the number of compute slots, MaxWaiting the length of the queue for them.
	MaxSeqs, MaxWaiting int
	// Chunked: prompts are cut so that a pass computes at most ChunkTokens prompt tokens.
	// Otherwise each prompt is computed in one piece.
	Chunked     bool
	ChunkTokens int
	// Pipelined: a prefill engine's chunks leave as they are computed. It needs Chunked
	// (PIPE-22).
	Pipelined bool
	// PartBytes is transfer.SendConfig's: from how many bytes on layers leave before their chunk
	// is computed. 0: chunks leave whole.
	PartBytes int
	// Timeout is kv_transfer_timeout in nanoseconds.
	Timeout int64
	// Context is the model's longest sequence, Ends the tokens that end an answer.
	Context int
	Ends    []int32
	// Text is a token's text, which may be part of a character.
	Text func(token int32) []byte
	// Fencing says whether the agent can refuse late writes.
	Fencing bool
	// LeaseDuration is kv_lease_duration in nanoseconds, Slots kv_lease_slots, and Draw gives
	// random bits for nonces.
	LeaseDuration int64
	Slots         int
	Draw          func() uint64
	// VerifyLeases: what was read is used only when the holder's slots prove it
	// (kv_lease_verification). Recompute: what cannot be used is computed here, where otherwise
	// the request fails (kv_load_failure_policy).
	VerifyLeases, Recompute bool
	// RecomputeThreshold: fewer tokens than this are computed and not read.
	RecomputeThreshold int
	// Life is our own, by which we know our turns.
	Life wire.Life
	// TurnTTL is decoder_kv_blocks_ttl in nanoseconds; 0 keeps no turns.
	TurnTTL int64
	// ReadOnly: the agent cannot be written to, so a decode engine reads what its prefill engine
	// announces (LEASE-25).
	ReadOnly bool
	// Checksum: what is received is compared with what was sent before it is used (PIPE-33).
	Checksum bool
	// Watch, if set, is told of every step of a session.
	Watch func(Watched)
}

// Validate reports the first setting that no engine can have.
func (c Config) Validate() error {
	switch {
	case c.MaxSeqs < 1:
		return fmt.Errorf("max_num_seqs %d: want at least 1", c.MaxSeqs)
	case c.Chunked && c.ChunkTokens < 1:
		return fmt.Errorf("chunk-tokens %d: want at least 1", c.ChunkTokens)
	case c.Pipelined && !c.Chunked:
		return fmt.Errorf("pipelined transfer needs enable_chunked_prefill: there is no other place where chunks are cut")
	case c.PartBytes < 0:
		return fmt.Errorf("parts of %d bytes: want at least 0", c.PartBytes)
	case c.Timeout <= 0:
		return fmt.Errorf("kv_transfer_timeout %d ns: want more than 0", c.Timeout)
	case c.Context < 2:
		return fmt.Errorf("context %d: want at least 2", c.Context)
	}
	return nil
}

// manager makes the pools' manager.
func (c Config) manager() (kvcache.Manager, error) {
	o := kvcache.Options{Reuse: c.Reuse, Salt: c.Salt, Freed: c.Freed}
	if c.Chunked {
		o.Chunk = c.ChunkTokens
	}
	if c.Grow {
		return kvcache.NewGrow(c.Layout, c.Blocks, o)
	}
	return kvcache.NewReserve(c.Layout, c.Blocks, o)
}

// Engine is one engine's machine.
type Engine struct {
	cfg     Config
	pools   kvcache.Manager
	byID    map[string]*seq
	arrived uint64
	queue   []*seq // waiting, in order of arrival
	running []*seq // with a compute slot, in order of admission
	pass    []part // the forward pass that is out
	passes  uint64 // how many have gone out
	timers  timers
	peers   peers
	send    sendSide
	recv    receiveSide
	lend    lendSide
	pull    pullSide
	turns   turns
	now     int64 // of the step that is being taken
	passAt  int64 // when the pass that is out went out
	copies  map[uint64]copyRef
	copyID  uint64
	out     []Output
}

// part is one request's share of the pass that is out.
type part struct {
	seq    *seq
	chunk  kvcache.Chunk // of a prompt; unused in a decode step
	decode bool
	sample bool
}

type copyRef struct {
	seq           *seq
	slice, writer int
	read          bool
}

// New makes an engine with every block free.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Parallel == (kvcache.Parallel{}) {
		cfg.Parallel = kvcache.Parallel{Tensor: 1, Pipeline: 1}
	}
	if cfg.LeaseDuration == 0 {
		cfg.LeaseDuration = cfg.Timeout
	}
	if _, err := cfg.Layout.Shards(cfg.Parallel); err != nil {
		return nil, err
	}
	pools, err := cfg.manager()
	if err != nil {
		return nil, err
	}
	return &Engine{
		cfg: cfg, pools: pools,
		byID:   map[string]*seq{},
		copies: map[uint64]copyRef{},
		peers:  newPeers(),
		send:   newSendSide(),
		recv:   receiveSide{},
		lend:   lendSide{leases: lease.NewTable(cfg.LeaseDuration), slots: lease.NewSlots(cfg.Slots, cfg.Draw)},
		pull:   newPullSide(),
		turns:  turns{byNonce: map[uint64]*turn{}, clocks: map[wire.Life]*lease.Offset{}},
	}, nil
}

// Step takes an event.
func (e *Engine) Step(now int64, ev Event) {
	e.now = now
	switch ev := ev.(type) {
	case Submit:
		e.submit(now, ev.Request)
	case Abort:
		e.abort(now, ev)
	case LayersComputed:
		e.layersComputed(now, ev)
	case Computed:
		e.computed(now, ev)
	case PeerUp:
		e.peerUp(now, ev)
	case ConnectFailed:
		e.connectFailed(now, ev)
	case PeerLost:
		e.peerLost(now, ev)
	case Message:
		e.message(now, ev)
	case CopyDone:
		e.copyDone(now, ev)
	case SlotsRead:
		e.slotsRead(now, ev)
	case Forget:
		e.forget(now, ev)
	case Verified:
		if s := e.recv.byEpoch(ev.Epoch); s != nil {
			e.stepReceive(now, s, transfer.Verified{Slice: ev.Slice, Writer: ev.Writer, Sum: ev.Sum})
		}
	case EpochRevoked:
		if s := e.recv.byEpoch(ev.Epoch); s != nil {
			e.stepReceive(now, s, transfer.Revoked{})
		}
	}
	e.schedule(now)
	if ev, ok := ev.(Submit); ok {
		e.announce(now, ev.Request.ID)
	}
}

// announce claims the lease of a request that will be written to us and has to queue first, so
// that it is waited for (LEASE-05). One that is admitted at once registers at once.
func (e *Engine) announce(now int64, id string) {
	if s := e.byID[id]; s != nil && s.state == waiting && s.req.Leg == DecodeLeg && s.req.Pull == nil {
		e.reach(now, s)
	}
}

// Tick runs what is due.
func (e *Engine) Tick(now int64) {
	e.now = now
	for {
		s, ok := e.timers.due(now)
		if !ok {
			break
		}
		switch {
		case s.send != nil && e.awaited(now, s):
		case s.send != nil:
			from := s.send.Phase()
			s.send.Tick(now)
			e.watched("send", s.req.ID, from, nil, s.send.Phase())
			e.sendOutputs(now, s)
		case s.recv != nil:
			from := s.recv.Phase()
			s.recv.Tick(now)
			e.watched("receive", s.req.ID, from, nil, s.recv.Phase())
			e.receiveOutputs(now, s)
		case s.pull != nil:
			from := s.pull.Phase()
			s.pull.Tick(now)
			e.watched("pull", s.req.ID, from, nil, s.pull.Phase())
			e.pullOutputs(now, s)
		}
		e.timers.set(s)
	}
	e.expireParked(now)
	e.expireLeases(now)
	e.expireTurns(now)
	e.retryConnects(now)
	e.beat(now)
	e.schedule(now)
}

// Deadline is when the engine wants to Tick.
func (e *Engine) Deadline() int64 {
	return min(
		e.timers.next(), e.send.parkedDeadline(), e.lend.leases.Deadline(), e.turns.deadline(),
		e.pull.retryDeadline(), e.beatDeadline(),
	)
}

// awaited lets a finished prefill wait on for a receiver that queues, for as long as that says
// so: the lease that it renews is the same as for what is read.
func (e *Engine) awaited(now int64, s *seq) bool {
	until, ok := e.lend.leases.Claimed(s.req.ID)
	if !ok || until <= now || s.send.HasReceiver() {
		return false
	}
	e.stepSend(now, s, transfer.Claimed{Until: until})
	return true
}

// copyDone takes the end of a copy or a read to its session.
func (e *Engine) copyDone(now int64, ev CopyDone) {
	ref := e.copies[ev.ID]
	delete(e.copies, ev.ID)
	if ref.read {
		e.stepPull(now, ref.seq, transfer.ReadDone{Slice: ref.slice, Writer: ref.writer, Err: ev.Err})
		return
	}
	e.stepSend(now, ref.seq, transfer.Copied{Slice: ref.slice, Writer: ref.writer, Err: ev.Err})
}

// Outputs gives what is to be done since the last call, in order.
func (e *Engine) Outputs() []Output {
	out := e.out
	e.out = nil
	return out
}

func (e *Engine) emit(o Output) { e.out = append(e.out, o) }

// submit takes a request in, or refuses it at once.
func (e *Engine) submit(now int64, r Request) {
	r.MaxTokens = max(1, min(r.MaxTokens, e.cfg.Context-len(r.Tokens)))
	s := &seq{req: r, fill: r.Tokens, number: e.arrived, stop: newStopper(r.Stop), wake: transfer.Never, slot: -1}
	if err := e.refuses(s); err != nil {
		e.finish(s, "", err)
		if r.Leg == PrefillLeg && err != ErrDuplicate {
			e.bury(r.ID, err)
			e.refuseParked(r.ID, err)
		}
		return
	}
	e.arrived++
	e.byID[r.ID] = s
	e.queue = append(e.queue, s)
	switch r.Leg {
	case PrefillLeg:
		e.openLend(now, s)
	case DecodeLeg:
		if r.Pull == nil {
			e.connect(r.Peer) // the handshake runs while the request is in the queue
		}
	}
	if r.Pull != nil {
		e.expectPull(now, s)
	}
}

func (e *Engine) refuses(s *seq) error {
	r := s.req
	switch {
	case r.Leg == PrefillLeg && e.cfg.Role != Prefill, r.Leg == DecodeLeg && e.cfg.Role != Decode:
		return ErrRole
	case len(r.Tokens) == 0:
		return ErrEmpty
	case len(r.Tokens) >= e.cfg.Context:
		return &TooLongError{Tokens: len(r.Tokens), Limit: e.cfg.Context - 1, Why: "the model's context"}
	case e.byID[r.ID] != nil:
		return ErrDuplicate
	case e.send.ended[r.ID] != nil:
		return e.send.ended[r.ID] // its receiver came, and left, before it
	case len(e.queue) >= e.cfg.MaxWaiting:
		return ErrOverloaded
	}
	if err := e.pools.Fits(s.demand()); err != nil {
		return &TooLongError{Tokens: len(r.Tokens), Limit: e.cfg.Context - 1, Why: err.Error()}
	}
	return nil
}

// abort ends a request wherever it is. Blocks that are still written or read stay until that
// has ended.
func (e *Engine) abort(now int64, ev Abort) {
	s := e.byID[ev.ID]
	switch {
	case s == nil:
	case s.pull != nil:
		e.dismiss(now, s, wire.StatusCancelled, ev.Cause.Error())
		e.stepPull(now, s, transfer.Cancel{Cause: ev.Cause})
	case s.lends():
		e.stepLend(now, s, transfer.Cancel{Cause: ev.Cause})
	case s.recv != nil && !s.recv.Ended():
		e.stepReceive(now, s, transfer.Cancel{Cause: ev.Cause})
	default:
		e.dismiss(now, s, wire.StatusCancelled, ev.Cause.Error())
		e.end(s, "", ev.Cause)
	}
}

// finish gives the request's one terminal answer.
func (e *Engine) finish(s *seq, reason FinishReason, err error) {
	e.finishWith(s, Finish{Reason: reason, Err: err})
}

// finishWith fills in what every answer says.
func (e *Engine) finishWith(s *seq, f Finish) {
	if s.finished {
		return
	}
	s.finished = true
	f.Request, f.Prompt, f.Cached, f.Completion = s.req.ID, len(s.req.Tokens), s.cached, len(s.output)
	f.Prefill, f.Transfer = s.prefill, s.stats
	if f.Err == nil {
		f.Text = s.stop.rest()
	}
	e.emit(f)
}

// end finishes a request whose blocks are the engine's own, and frees them when no pass
// uses them.
func (e *Engine) end(s *seq, reason FinishReason, err error) {
	f := Finish{Reason: reason, Err: err}
	if s.state == decoding && !s.inPass {
		e.pools.Commit(s.hold, s.stored())
		if err == nil {
			f.Handle = e.keepTurn(s)
		}
	}
	e.finishWith(s, f)
	e.leave(s)
	if !s.inPass {
		e.release(s)
	}
}

// leave takes a request out of the queue or gives its compute slot back.
func (e *Engine) leave(s *seq) {
	if s.state == waiting || s.state == evicted {
		e.queue = without(e.queue, s)
	} else {
		e.running = without(e.running, s)
	}
	s.state = ended
}

// release frees a request's blocks and forgets it. A timer may keep the seq for as long as it
// has to come, but not the prompt and the sessions.
func (e *Engine) release(s *seq) {
	if s.pull != nil {
		s.letGo = true // something is still being read into the blocks
		e.stepPull(e.now, s, transfer.Cancel{Cause: fmt.Errorf("%w: the request has ended", transfer.ErrCancelled)})
		return
	}
	e.unclaim(e.now, s)
	e.giveBack(s)
	e.freeSlot(s)
	delete(e.byID, s.req.ID)
	*s = seq{number: s.number, state: ended, finished: true, wake: s.wake, slot: -1}
}

// giveBack frees what a request holds, its lease slot zeroed before.
func (e *Engine) giveBack(s *seq) {
	e.zeroSlot(s)
	if s.hold != nil {
		e.pools.Give(s.hold)
		s.hold = nil
	}
}

func without(list []*seq, s *seq) []*seq {
	for i, x := range list {
		if x == s {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// Counts is what an engine holds at an instant. An idle engine has all blocks free and
// everything else at zero.
type Counts struct {
	Blocks, Free     int
	Running, Waiting int
	Send, Receive    int
	Parked           int
	// Offers are the prompts that are read, not sent; Leases those of them, and of those that
	// wait for a receiver, that a lease holds; Turns the finished answers that are kept, in
	// TurnBlocks blocks.
	Offers, Pull, Leases int
	Turns, TurnBlocks    int
}

// Counts tells what the engine holds. Running counts every request that has left the queue
// and whose blocks are not released.
func (e *Engine) Counts() Counts {
	total, free := e.pools.Count()
	return Counts{
		Blocks: total, Free: free,
		Running: len(e.byID) - len(e.queue), Waiting: len(e.queue),
		Send: e.send.open, Receive: e.recv.open - e.pull.open, Parked: len(e.send.parked),
		Offers: e.lend.offers, Pull: e.pull.open, Leases: e.lend.leases.Len(),
		Turns: len(e.turns.list), TurnBlocks: e.turns.blocks(),
	}
}

// Peers is the number of peers that are up.
func (e *Engine) Peers() int { return len(e.peers.up) }

// message takes a peer's message to the request that it is about.
func (e *Engine) message(now int64, ev Message) {
	switch m := ev.Msg.(type) {
	case *wire.Register:
		e.registered(now, ev.Peer, m)
	case *wire.Withdraw:
		e.withdrawn(now, ev.Peer, m)
	case *wire.Result:
		e.stepTask(now, m.Task, transfer.ResultCame{Peer: ev.Peer, Msg: m})
	case *wire.Progress:
		e.stepTask(now, m.Task, transfer.ProgressCame{Peer: ev.Peer, Msg: m})
	case *wire.Announce:
		if s := e.recv.byTask(m.Task); s != nil && s.pull != nil {
			e.stepPull(now, s, transfer.Announced{Peer: ev.Peer, Msg: m})
		}
	case *wire.Heartbeat:
		e.heartbeat(now, ev.Peer, m)
	case *wire.HeartbeatAck:
		e.acked(now, ev.Peer, m)
	case *wire.Complete:
		e.completed(now, ev.Peer, m)
	case *wire.Clock:
		e.clock(now, ev.Peer, m)
	}
}

// stepTask takes what a sender says of a receive to whoever posted it.
func (e *Engine) stepTask(now int64, task uint32, ev interface {
	transfer.ReceiveEvent
	transfer.PullEvent
},
) {
	switch s := e.recv.byTask(task); {
	case s == nil:
	case s.recv != nil:
		e.stepReceive(now, s, ev)
	case s.pull != nil:
		e.stepPull(now, s, ev)
	}
}
