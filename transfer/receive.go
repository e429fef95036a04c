package transfer

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// ReceiveConfig fixes one request's receive session.
type ReceiveConfig struct {
	Request string
	// Task is this receive's index on our side, and Epoch its receive epoch, never used before.
	Task      uint32
	Epoch     uint64
	Layout    kvcache.Layout
	PromptLen int
	TokenHash [32]byte
	// DstStart is the number of prompt tokens whose KV we hold already.
	DstStart int
	// Tables are the request's block tables, which may reach past the prompt.
	Tables []kvcache.BlockTable
	// Writers is the number of sending ranks if PeerUp does not tell it.
	Writers int
	// Checksum: no slice counts before the checksum of what it brought was compared (PIPE-33).
	Checksum bool
	// Fencing: the agent can refuse late writes. Without it the blocks of an abandoned receive
	// stay until the writer has confirmed or its life has ended (PIPE-32).
	Fencing bool
	// Timeout is kv_transfer_timeout in nanoseconds.
	Timeout int64
}

// Receive is the decode side of one request: it posts ONE receive for the whole prompt and
// completes when every slice of every expected writer has landed, in whatever order their
// results come (PIPE-02, PIPE-13).
type Receive struct {
	cfg       ReceiveConfig
	phase     receivePhase
	peer      wire.Life
	reg       *wire.Register
	writers   []writer
	held      map[[2]int]*wire.Result // results whose bytes are being verified, by writer and slice
	aux       *wire.Aux
	bytes     uint64
	confirmed bool // the writer has nothing in flight any more
	revoked   bool
	active    int64
	out       []Output
}

type receivePhase uint8

const (
	receiveConnecting receivePhase = iota // no peer yet
	receivePosted                         // registered, waiting for slices
	receiveClosing                        // whole; the epoch is being closed
	receiveFailing                        // failed; the epoch is being closed
	receiveEnded
)

// writer is what is known of one sending rank's slices.
type writer struct {
	landed []bool // by slice index
	n      int    // how many of them are true
	count  int    // how many there are in all; -1 until the last slice tells
}

// NewReceive makes a session that waits for its peer's connection.
func NewReceive(cfg ReceiveConfig, now int64) *Receive {
	return &Receive{cfg: cfg, active: now, held: map[[2]int]*wire.Result{}}
}

// Step takes an event. An event that no longer matters changes nothing.
func (r *Receive) Step(now int64, ev ReceiveEvent) {
	switch ev := ev.(type) {
	case PeerUp:
		if r.phase == receiveConnecting {
			r.expect(ev.Writers)
			r.post(now, ev.Peer)
		}
	case Unreachable:
		if r.phase == receiveConnecting {
			r.fail(fmt.Errorf("%w: %w", ErrPeerLost, ev.Err))
		}
	case ResultCame:
		if r.isOurs(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) {
			r.result(now, ev.Msg)
		}
	case ProgressCame:
		if r.isOurs(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) {
			r.active = now
		}
	case PeerGone:
		r.peerGone(ev)
	case Cancel:
		r.fail(ev.Cause)
	case Verified:
		r.verified(ev)
	case Revoked:
		r.revoked = true
	}
	r.settle()
}

// expect makes a set for each writer.
func (r *Receive) expect(writers int) {
	if writers == 0 {
		writers = r.cfg.Writers
	}
	r.writers = make([]writer, writers)
	for i := range r.writers {
		r.writers[i].count = -1
	}
}

// post grants the blocks and registers the one receive, even when every block is here
// already: the aux still has to come.
func (r *Receive) post(now int64, peer wire.Life) {
	r.phase, r.peer, r.active = receivePosted, peer, now
	reg := &wire.Register{
		Request: r.cfg.Request, Task: r.cfg.Task, Epoch: r.cfg.Epoch,
		PromptLen: uint32(r.cfg.PromptLen), TokenHash: r.cfg.TokenHash, DstStart: uint32(r.cfg.DstStart),
	}
	reg.Checksum = r.cfg.Checksum
	grant := Grant{Epoch: r.cfg.Epoch, Peer: peer}
	for g, t := range r.cfg.Tables {
		blocks := r.wanted(g, t)
		ids := make([]int32, len(blocks))
		for i, b := range blocks {
			ids[i] = int32(b)
		}
		grant.Blocks = append(grant.Blocks, blocks)
		reg.Blocks = append(reg.Blocks, ids)
	}
	r.reg = reg
	r.emit(grant)
	r.emit(Notify{Peer: peer, Msg: reg})
}

// wanted are the blocks of a group that are to be written: from what we hold already, which
// others may share, exactly to the prompt's last block, never those reserved for what is
// decoded (PIPE-10).
func (r *Receive) wanted(g int, t kvcache.BlockTable) []kvcache.BlockID {
	if r.cfg.Layout.Groups[g].Recurrent() {
		return t.Blocks
	}
	total := r.cfg.Layout.TotalBlocks(r.cfg.PromptLen)
	held := r.cfg.DstStart / r.cfg.Layout.BlockTokens
	if r.cfg.DstStart >= r.cfg.PromptLen {
		held = total
	}
	return kvcache.Project(t.Blocks, t.End(), kvcache.Span{Start: held, End: total})
}

func (r *Receive) peerGone(ev PeerGone) {
	if r.phase == receiveConnecting || ev.Peer != r.peer {
		return
	}
	r.confirmed = true
	if r.phase == receivePosted {
		r.fail(fmt.Errorf("%w: %w", ErrPeerLost, ev.Err))
	}
}

// fail ends the session: the owner is told at once, the sender too if it may not know, and
// the epoch is closed before the blocks are released.
func (r *Receive) fail(cause error) {
	was := r.phase
	if was == receiveFailing || was == receiveEnded {
		return
	}
	r.phase = receiveFailing
	r.emit(Failed{Err: &Error{Request: r.cfg.Request, Peer: r.peer, Cause: cause}})
	switch was {
	case receiveConnecting:
		r.revoked, r.confirmed = true, true // nobody knows of the blocks
		return
	case receiveClosing:
		r.confirmed = true // everything has landed, and the epoch is being closed already
		return
	}
	if !r.confirmed {
		r.emit(Notify{Peer: r.peer, Msg: &wire.Withdraw{
			Request: r.cfg.Request, Task: r.cfg.Task, Epoch: r.cfg.Epoch, Reason: reason(cause),
		}})
	}
	r.emit(Revoke{Epoch: r.cfg.Epoch})
}

// settle ends a session whose epoch is closed. Only then is the KV used, or are the blocks of
// an abandoned receive given back.
func (r *Receive) settle() {
	if !r.revoked {
		return
	}
	switch r.phase {
	case receiveClosing:
		r.phase = receiveEnded
		r.emit(Received{Aux: *r.aux, Stats: r.stats()})
	case receiveFailing:
		if r.cfg.Fencing || r.confirmed {
			r.phase = receiveEnded
			r.emit(Release{})
		}
	}
}

func (r *Receive) stats() Stats {
	st := Stats{Bytes: r.bytes}
	for _, w := range r.writers {
		st.Slices += w.n
	}
	return st
}

// Deadline is when the session wants to Tick. A closing epoch needs no time-out: the agent
// answers for it.
func (r *Receive) Deadline() int64 {
	if r.phase == receiveConnecting || r.phase == receivePosted {
		return r.active + r.cfg.Timeout
	}
	return Never
}

// Tick ends a session in which nothing moved for the time-out (PIPE-19).
func (r *Receive) Tick(now int64) {
	if now < r.Deadline() {
		return
	}
	if r.phase == receiveConnecting {
		r.fail(fmt.Errorf("%w: no connection with the sender", ErrTimeout))
	} else {
		r.fail(fmt.Errorf("%w: the sender is silent", ErrTimeout))
	}
	r.settle()
}

// Ended reports that the session is over: the blocks are the owner's, or released.
func (r *Receive) Ended() bool { return r.phase == receiveEnded }

// Peer is the sender's life; zero before it is up.
func (r *Receive) Peer() wire.Life { return r.peer }

// Outputs gives what is to be done since the last call, in order.
func (r *Receive) Outputs() []Output {
	out := r.out
	r.out = nil
	return out
}

func (r *Receive) emit(o Output) { r.out = append(r.out, o) }

// isOurs says whether a message is about this receive. The epoch alone would not do: each life
// of ours counts its own, and a sender that outlives one may still speak of what it had.
func (r *Receive) isOurs(peer wire.Life, request string, epoch uint64) bool {
	return r.phase != receiveConnecting && peer == r.peer && request == r.cfg.Request && epoch == r.cfg.Epoch
}
