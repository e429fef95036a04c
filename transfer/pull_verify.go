package transfer

import (
	"fmt"

	"kvferry/wire"
)

// provable reports, before any byte is read, why what is read could not be proved (LEASE-17).
func (p *Pull) provable() error {
	switch {
	case !p.cfg.Verify:
		return nil
	case p.slot < 0 && p.nonce == 0, p.ready.Slots == 0:
		return &VerifyError{Reason: ReasonNoSlot}
	case p.slot < 0 || p.nonce == 0:
		return &VerifyError{Reason: ReasonFields}
	case p.slot >= p.ready.Slots:
		return fmt.Errorf("%w: lease slot %d of %d", ErrHandle, p.slot, p.ready.Slots)
	}
	return nil
}

// proceed looks at the slots when every block of every rank is here, and not before: only then
// does a nonce that still stands prove all of them.
func (p *Pull) proceed() {
	if p.known != p.count || p.open > 0 {
		return
	}
	if err := p.tiled(); err != nil {
		p.giveUp(err)
		return
	}
	p.phase = pullVerifying
	if p.cfg.Verify {
		for w := range p.ranks {
			if p.ranks[w].read {
				p.ranks[w].checking = true
				p.checks++
				p.emit(CheckSlot{Peer: p.peer, Writer: w, Slot: p.slot})
			}
		}
	}
	p.proved()
}

// tiled reports a gap between the slices: what no slice brought would be decoded as it is.
func (p *Pull) tiled() error {
	at := 0
	for i := range p.slices {
		if s := p.slices[i].span; s.Start != at {
			return fmt.Errorf("%w: slice %d begins at block %d and not at %d", ErrProtocol, i, s.Start, at)
		}
		at = p.slices[i].span.End
	}
	if total := p.cfg.Layout.TotalBlocks(p.cfg.Tokens); at != total {
		return fmt.Errorf("%w: the slices end at block %d of %d", ErrProtocol, at, total)
	}
	return nil
}

// slotRead compares what a rank's slot holds.
func (p *Pull) slotRead(now int64, ev SlotRead) {
	if p.phase != pullVerifying || ev.Writer >= len(p.ranks) || !p.ranks[ev.Writer].checking {
		return
	}
	p.ranks[ev.Writer].checking = false
	p.checks--
	p.active = now
	switch {
	case ev.Err != nil:
		p.giveUp(&VerifyError{Writer: ev.Writer, Reason: ReasonSlotRead, Err: ev.Err})
	case uint64(ev.Value) != p.nonce:
		p.giveUp(&VerifyError{Writer: ev.Writer, Reason: ReasonLapsed})
	default:
		p.proved()
	}
}

// proved ends the session when no slot is to be looked at any more. The holder hears of it after
// the proof (LEASE-16).
func (p *Pull) proved() {
	if p.checks > 0 {
		return
	}
	p.complete(wire.StatusOK, "")
	p.phase = pullEnded
	p.emit(Pulled{Aux: p.aux, Stats: p.stats()})
}

// checking is the first rank whose slot is being read.
func (p *Pull) checking() int {
	for w := range p.ranks {
		if p.ranks[w].checking {
			return w
		}
	}
	return 0
}

func (p *Pull) stats() Stats {
	var st Stats
	for i := range p.slices {
		if p.slices[i].bytes > 0 {
			st.Slices++
			st.Bytes += p.slices[i].bytes
		}
	}
	st.Busy, st.Exposed = p.spans.split(p.lastAt)
	st.Hidden = st.Busy - st.Exposed
	return st
}
