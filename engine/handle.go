package engine

import (
	"errors"

	"kvferry/kvcache"
	"kvferry/wire"
)

// Handle is what an engine needs to read a request's KV from the engine that holds it: the
// content of kv_transfer_params.
type Handle struct {
	// Life is the holder's, and Addr where its agent listens.
	Life wire.Life
	Addr string
	// Request is the holder's name for what it holds.
	Request string
	// Blocks has a resident suffix a layer group of the first Tokens tokens' blocks.
	Blocks [][]kvcache.BlockID
	Tokens int
	// Hashes is kvcache.Chain over those tokens: the KV is used only as far as it agrees with
	// the reader's own (LEASE-23). Nil if it was lost on the way.
	Hashes []kvcache.Key
	// Slot and Nonce prove the read; Slot is negative if the holder had none to give, or the
	// fields were lost on the way.
	Slot  int
	Nonce uint64
	// Turn: this is a finished turn on a decode engine. It is held until Expiry, on the holder's
	// clock, if nothing needs the room; it is not renewed, and reading does not end it (LEASE-20).
	Turn   bool
	Expiry int64
	// Before is the turn that the request went on from: a reader that holds it needs it no longer.
	Before TurnRef
	// Cached is how many of the tokens the holder did not compute for this request.
	Cached int
}

// TurnRef names a kept turn: the life that keeps it and the nonce in its slot.
type TurnRef struct {
	Life  wire.Life
	Nonce uint64
}

// The causes for which a handle is refused before anything is read.
var (
	// ErrEarlierLife: whoever made the handle is no more; another process answers there now.
	ErrEarlierLife = errors.New("the handle belongs to an earlier life of its engine")
	// ErrOtherPrompt: the handle is of other tokens than the request's.
	ErrOtherPrompt = errors.New("the handle is of another prompt or model")
	// ErrNoHashes: the handle does not say of which tokens it is.
	ErrNoHashes = errors.New("the handle has no remote_block_hashes")
	// ErrTurnOver: the turn's time to live has passed, or may have.
	ErrTurnOver = errors.New("the turn has expired")
)

// usable is how many of a prompt's tokens a handle can bring. One token stays to be computed, for
// the first output token comes from it. Other engines' handles have no hashes; without
// verification they are taken by their length.
func (e *Engine) usable(h *Handle, prompt []int32) (int, error) {
	tpb, n := e.cfg.Layout.BlockTokens, len(prompt)
	agreed := 0
	switch {
	case len(h.Hashes) > 0:
		agreed = kvcache.Agree(h.Hashes, h.Tokens, kvcache.Chain(e.cfg.Salt, tpb, prompt), n, tpb)
	case e.cfg.VerifyLeases:
		return 0, ErrNoHashes
	case h.Tokens == n:
		agreed = n
	}
	if agreed <= 0 { // a handle may count in any way
		return 0, ErrOtherPrompt
	}
	if agreed == n && h.Tokens == n {
		return n - 1, nil
	}
	return min(agreed, n-1) / tpb * tpb, nil
}
