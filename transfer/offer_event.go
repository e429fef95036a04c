package transfer

import "kvferry/wire"

// OfferEvent is what can happen to an Offer. It is one of ChunkStarted, ChunkComputed,
// TakenBack, Cancel and the types below.
type OfferEvent interface{ offerEvent() }

// Completed: the reader's Complete fits the request's lease (LEASE-16).
type Completed struct {
	Status wire.Status
	Reason string
}

// Expired: the request's lease ended, and nobody said that the blocks were read (LEASE-04).
type Expired struct{}

func (ChunkStarted) offerEvent()  {}
func (ChunkComputed) offerEvent() {}
func (TakenBack) offerEvent()     {}
func (Cancel) offerEvent()        {}
func (Completed) offerEvent()     {}
func (Expired) offerEvent()       {}
