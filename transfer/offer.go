package transfer

import (
	"errors"
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// OfferConfig fixes one request's offer.
type OfferConfig struct {
	Request   string
	Layout    kvcache.Layout
	PromptLen int
}

// Offer is the prefill side of a request that is read from: it holds the prompt's blocks by its
// Ownership until their reader is done, or their lease ends. It knows no time: the lease table
// has the only clock (LEASE-01, LEASE-02).
type Offer struct {
	cfg      OfferConfig
	own      Ownership
	offered  bool // Offered was given
	finished bool // nothing is offered, or will be, any more
	err      error
	out      []Output
}

// NewOffer makes an offer of a prompt of which nothing is computed.
func NewOffer(cfg OfferConfig, _ int64) *Offer { return &Offer{cfg: cfg} }

// Step takes an event. An event that no longer matters changes nothing.
func (o *Offer) Step(_ int64, ev OfferEvent) {
	switch ev := ev.(type) {
	case ChunkStarted:
		o.own.Use()
	case ChunkComputed:
		o.chunkComputed(ev)
	case TakenBack:
		o.takenBack()
	case Completed:
		o.end(ev.cause())
	case Expired:
		o.end(ErrLeaseExpired)
	case Cancel:
		o.end(ev.Cause)
	}
	if o.finished && o.own.Release() {
		o.emit(Release{})
	}
}

// chunkComputed offers the prompt with its last chunk. The record completes too when the request
// was cancelled while that chunk was computing: its blocks are whole (PIPE-16).
func (o *Offer) chunkComputed(ev ChunkComputed) {
	o.own.Done()
	switch {
	case ev.Err != nil:
		o.end(ev.Err)
	case o.finished:
		if ev.Chunk.Last && errors.Is(o.err, ErrCancelled) && o.own.Complete() {
			o.emit(Commit{})
		}
	default:
		o.own.Acquire()
		if ev.Chunk.Last && o.own.Complete() {
			o.offered = true
			o.emit(Commit{})
			o.emit(Offered{Tables: o.prompt(ev.Tables), Aux: ev.Aux})
		}
	}
}

// prompt is the tables without what is reserved behind the prompt. A state has one block, and a
// prompt no less.
func (o *Offer) prompt(tables []kvcache.BlockTable) []kvcache.BlockTable {
	out := make([]kvcache.BlockTable, len(tables))
	for g, t := range tables {
		out[g] = t.Capped(o.cfg.Layout.TotalBlocks(o.cfg.PromptLen))
	}
	return out
}

// takenBack begins anew; what was offered already is lost.
func (o *Offer) takenBack() {
	if o.own.InFlight() {
		panic("transfer: blocks in use were taken back")
	}
	if o.offered {
		o.end(errors.New("the blocks were given to others"))
		return
	}
	o.own.Reopen(false)
}

// cause is nil for a reader that has used the KV.
func (c Completed) cause() error {
	if c.Status == wire.StatusOK {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrWithdrawn, c.Reason)
}

// end ends the offer. The first cause stands. The owner has had its answer if the prompt is
// computed; otherwise it learns here that none will come.
func (o *Offer) end(cause error) {
	if o.finished {
		return
	}
	if cause == nil && !o.offered {
		cause = fmt.Errorf("%w: completed before it was offered", ErrProtocol)
	}
	o.finished, o.err = true, cause
	if !o.offered {
		o.emit(Failed{Err: &Error{Request: o.cfg.Request, Cause: cause}})
	}
}

// Held reports that the prompt can be read: it is computed, and neither read, expired nor
// given up.
func (o *Offer) Held() bool { return o.offered && !o.finished }

// InFlight reports whether a pass uses the request's blocks.
func (o *Offer) InFlight() bool { return o.own.InFlight() }

// Ended reports that the offer is over and holds no block any more.
func (o *Offer) Ended() bool { return o.own.phase == phaseReleased }

// Err is why the offer ended without being used, or nil.
func (o *Offer) Err() error { return o.err }

// Outputs gives what is to be done since the last call, in order.
func (o *Offer) Outputs() []Output {
	out := o.out
	o.out = nil
	return out
}

func (o *Offer) emit(out Output) { o.out = append(o.out, out) }
