package transfer

import (
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// PullConfig fixes one request's pull session.
type PullConfig struct {
	Request string
	Layout  kvcache.Layout
	// Tokens is how many tokens' KV is to be here in the end. With a handle that is all but the
	// prompt's last, which is computed again for its logits; when the peer announces, the whole
	// prompt.
	Tokens int
	// DstStart is the number of tokens whose KV we hold already, in whole blocks.
	DstStart int
	// Tables are our own block tables, which may reach past Tokens.
	Tables []kvcache.BlockTable
	// Source is what a handle names. Nil: we register for reading what the peer announces.
	Source *Source
	// Task, Epoch, PromptLen and TokenHash go into that registration.
	Task      uint32
	Epoch     uint64
	PromptLen int
	TokenHash [32]byte
	// Lease is what Complete names. An announcement brings the nonce if it is 0.
	Lease wire.Lease
	// Silent: no Complete goes out, for this read does not end the holder's hold.
	Silent bool
	// Verify is kv_lease_verification (LEASE-18).
	Verify bool
	// Recompute is kv_load_failure_policy recompute: a load that fails is Unusable, not Failed.
	Recompute bool
	// Timeout is kv_transfer_timeout in nanoseconds.
	Timeout int64
}

// Source is the peer's blocks that a handle names.
type Source struct {
	// Blocks has a resident suffix a layer group, ending at logical block End.
	Blocks [][]kvcache.BlockID
	End    int
	// Slot is the lease slot, -1 if none was given, and Nonce what it must hold, 0 if none was
	// given.
	Slot  int
	Nonce uint64
}

// Pull is the reading side of one request: it brings KV from the peer's blocks into ours, and
// gives it out only when the peer's slots prove that the blocks were the request's to the last
// byte (LEASE-15).
type Pull struct {
	cfg    PullConfig
	phase  pullPhase
	peer   wire.Life
	ready  PullReady
	dst    Destination
	slices []pullSlice // by index
	known  int         // how many of them are announced
	count  int         // how many there will be; -1 until the last is announced
	// proof is the slot to look at and the nonce to find there; from the handle, or the first
	// announcement.
	slot   int
	nonce  uint64
	aux    *wire.Aux
	ranks  []rankState
	open   int // reads in flight
	checks int // slot reads in flight
	err    error
	// unusable: the failure is still to be told, as Unusable, when the reads have ended.
	unusable bool
	dropped  bool // Drop was given
	active   int64
	spans    busy
	lastAt   int64 // when the last slice was announced
	out      []Output
}

type pullPhase uint8

const (
	pullConnecting pullPhase = iota
	pullWaiting              // registered, nothing announced
	pullReading
	pullVerifying
	pullDraining // failed; reads are still in flight
	pullEnded
)

// pullSlice is what is known of one slice.
type pullSlice struct {
	known  bool
	span   kvcache.Span
	flying []bool // by rank
	open   int    // how many of them are true
	bytes  uint64
}

// rankState is what is known of one of the peer's ranks.
type rankState struct {
	read     bool // something was read from it, so its slot must be looked at
	checking bool
}

// NewPull makes a session that waits for its peer's connection.
func NewPull(cfg PullConfig, now int64) *Pull {
	p := &Pull{cfg: cfg, count: -1, slot: -1, nonce: cfg.Lease.Nonce, active: now}
	if cfg.Source != nil {
		p.slot, p.nonce = cfg.Source.Slot, cfg.Source.Nonce
	}
	return p
}

// Step takes an event. An event that no longer matters changes nothing.
func (p *Pull) Step(now int64, ev PullEvent) {
	switch ev := ev.(type) {
	case PullReady:
		if p.phase == pullConnecting {
			p.begin(now, ev)
		}
	case Unreachable:
		if p.phase == pullConnecting {
			p.lost(ev.Err)
		}
	case Announced:
		if p.expects(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) {
			p.announced(now, ev.Msg)
		}
	case ReadDone:
		p.readDone(now, ev)
	case SlotRead:
		p.slotRead(now, ev)
	case LeaseRefused:
		p.fail(fmt.Errorf("%w: %s", ErrLeaseRefused, ev.Reason))
	case PeerGone:
		if ev.Peer == p.peer {
			p.lost(ev.Err)
		}
	case ResultCame:
		if p.expects(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) && ev.Msg.Status != wire.StatusOK {
			p.fail(&RemoteError{Status: ev.Msg.Status, Reason: ev.Msg.Reason})
		}
	case ProgressCame:
		if p.expects(ev.Peer, ev.Msg.Request, ev.Msg.Epoch) {
			p.active = now
		}
	case Cancel:
		p.cancel(ev.Cause)
	}
	p.settle()
}

// expects says whether a message is about this session's registration.
func (p *Pull) expects(peer wire.Life, request string, epoch uint64) bool {
	return p.cfg.Source == nil && p.phase != pullConnecting &&
		peer == p.peer && request == p.cfg.Request && epoch == p.cfg.Epoch
}

func (p *Pull) lost(err error) { p.fail(fmt.Errorf("%w: %w", ErrPeerLost, err)) }

// over reports that the session's outcome stands.
func (p *Pull) over() bool { return p.phase >= pullDraining }

// giveUp fails a load whose peer still holds the lease for us, and tells it so.
func (p *Pull) giveUp(cause error) {
	if !p.over() {
		p.complete(wire.StatusFailed, reason(cause))
	}
	p.fail(cause)
}

// fail ends the load. Without Recompute the owner hears of it at once.
func (p *Pull) fail(cause error) {
	if p.over() {
		return
	}
	p.phase, p.err = pullDraining, cause
	if p.cfg.Recompute {
		p.unusable = true
		return
	}
	p.emit(Failed{Err: p.failure(cause)})
}

// cancel ends the session because nobody wants the KV any more (LEASE-21). There is nothing to
// compute then, whatever the policy.
func (p *Pull) cancel(cause error) {
	switch {
	case !p.over():
		p.complete(wire.StatusCancelled, reason(cause))
		p.phase = pullDraining
	case !p.unusable:
		return
	}
	p.err, p.unusable = cause, false
	p.emit(Failed{Err: p.failure(cause)})
}

func (p *Pull) failure(cause error) error {
	return &Error{Request: p.cfg.Request, Peer: p.peer, Cause: cause}
}

// complete ends the lease on the peer.
func (p *Pull) complete(status wire.Status, why string) {
	if p.cfg.Silent || p.phase == pullConnecting {
		return
	}
	lease := p.cfg.Lease
	if lease.Nonce == 0 {
		lease.Nonce = p.nonce
	}
	p.emit(Notify{Peer: p.peer, Msg: &wire.Complete{Lease: lease, Status: status, Reason: why}})
}

// settle ends a session that failed once nothing is read into its blocks any more.
func (p *Pull) settle() {
	if p.phase != pullDraining || p.open > 0 {
		return
	}
	p.phase = pullEnded
	if p.unusable {
		p.unusable = false
		p.emit(Unusable{Err: p.failure(p.err)})
		return
	}
	p.emit(Release{})
}

// Deadline is when the session wants to Tick.
func (p *Pull) Deadline() int64 {
	if p.dropped || p.phase == pullEnded {
		return Never
	}
	return p.active + p.cfg.Timeout
}

// Tick ends a session in which nothing moved for the time-out. A read that is stuck holds our
// blocks, those of a session that has failed too, so its connection is closed.
func (p *Pull) Tick(now int64) {
	if now < p.Deadline() {
		return
	}
	var cause error
	switch {
	case p.phase == pullConnecting:
		cause = fmt.Errorf("%w: no connection with the holder", ErrTimeout)
	case p.open > 0:
		cause = fmt.Errorf("%w: a read did not end", ErrTimeout)
	case p.phase == pullVerifying:
		cause = &VerifyError{Writer: p.checking(), Reason: ReasonSlotRead, Err: ErrTimeout}
	default:
		cause = fmt.Errorf("%w: the sender is silent", ErrTimeout)
	}
	p.giveUp(cause)
	if p.open > 0 {
		p.dropped = true
		p.emit(Drop{Peer: p.peer, Err: cause})
	}
	p.settle()
}

// Ended reports that the session is over and reads nothing any more.
func (p *Pull) Ended() bool { return p.phase == pullEnded }

// Err is why the session ended without the KV, or nil.
func (p *Pull) Err() error { return p.err }

// Peer is the holder's life; zero before it is up.
func (p *Pull) Peer() wire.Life { return p.peer }

// Outputs gives what is to be done since the last call, in order.
func (p *Pull) Outputs() []Output {
	out := p.out
	p.out = nil
	return out
}

func (p *Pull) emit(o Output) { p.out = append(p.out, o) }
