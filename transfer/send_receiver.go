package transfer

import (
	"errors"
	"fmt"

	"kvferry/kvcache"
	"kvferry/wire"
)

// registered takes the first registration that fits. What was computed before it leaves now,
// in order, the aux too (PIPE-13).
func (s *Send) registered(now int64, ev Registered) {
	if s.reg != nil && s.IsReceiver(ev.Peer, ev.Msg.Epoch) {
		return // a duplicate
	}
	if s.reg != nil || s.err != nil {
		s.refuse(ev, wire.StatusGone, s.gone())
		return
	}
	if err := s.fits(ev); err != nil {
		s.refuse(ev, wire.StatusRefused, err)
		s.fail(wire.StatusRefused, fmt.Errorf("%w: %w", ErrRefused, err))
		return
	}
	s.ranks = ev.Ranks
	if s.ranks == nil {
		s.ranks = oneToOne(s.cfg.Layout)
	}
	s.peer, s.reg, s.dst = ev.Peer, ev.Msg, destination(ev.Msg)
	s.slot, s.nonce = ev.Slot, ev.Nonce
	s.active, s.progress, s.offered = now, now, false
	s.dispatch(now)
	s.dispatchMaking(now)
}

// destination is what a registration says, in blocks.
func destination(m *wire.Register) Destination {
	d := Destination{Start: int(m.DstStart)}
	for _, list := range m.Blocks {
		blocks := make([]kvcache.BlockID, len(list))
		for i, id := range list {
			blocks[i] = kvcache.BlockID(id)
		}
		d.Blocks = append(d.Blocks, blocks)
	}
	return d
}

func (s *Send) gone() error {
	if s.err != nil {
		return s.err
	}
	return errors.New("another receive is registered for this request")
}

// fits compares a registration with the request before anything is written (PIPE-34).
func (s *Send) fits(ev Registered) error {
	m := ev.Msg
	total := s.cfg.Layout.TotalBlocks(s.cfg.PromptLen)
	switch {
	case int(m.PromptLen) != s.cfg.PromptLen:
		return fmt.Errorf("prompt_len is %d here and %d there", s.cfg.PromptLen, m.PromptLen)
	case m.TokenHash != s.cfg.TokenHash:
		return errors.New("the prompt's tokens differ")
	case int(m.DstStart) > s.cfg.PromptLen:
		return fmt.Errorf("dst_start_token %d is past the prompt's %d tokens", m.DstStart, s.cfg.PromptLen)
	case len(m.Blocks) != len(s.cfg.Layout.Groups) || len(ev.PoolBlocks) != len(m.Blocks):
		return fmt.Errorf("%d block lists and %d pools for %d layer groups",
			len(m.Blocks), len(ev.PoolBlocks), len(s.cfg.Layout.Groups))
	case m.Read && !ev.HasSlot:
		return errNoSlot
	}
	for g, list := range m.Blocks {
		if len(list) > total {
			return fmt.Errorf("layer group %d: %d blocks for a prompt of %d", g, len(list), total)
		}
		for _, id := range list {
			if id < 0 || int(id) >= ev.PoolBlocks[g] {
				return fmt.Errorf("layer group %d: block %d is not in a pool of %d", g, id, ev.PoolBlocks[g])
			}
		}
	}
	return nil
}

// refuse answers a registration that this session will not serve.
func (s *Send) refuse(ev Registered, status wire.Status, err error) {
	s.emit(Notify{Peer: ev.Peer, Msg: Refusal(ev.Msg, status, err)})
}

// Refusal is the terminal answer to a registration that nothing will be written for.
func Refusal(m *wire.Register, status wire.Status, err error) *wire.Result {
	return &wire.Result{
		Request: m.Request, Task: m.Task, Epoch: m.Epoch,
		Last: true, Status: status, Reason: reason(err),
	}
}
