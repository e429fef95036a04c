package engine

import (
	"fmt"
	"time"

	"kvferry/wire"
)

func showLeaseOutput(o Output) string {
	switch o := o.(type) {
	case SetSlot:
		return fmt.Sprintf("slot %d := %d", o.Slot, o.Value)
	case Read:
		s := fmt.Sprintf("read %d from %s:", o.ID, lifeName(o.Peer))
		for _, g := range o.Groups {
			s += fmt.Sprintf(" %v->%v", g.Src, g.Dst)
		}
		return s
	case ReadSlots:
		return fmt.Sprintf("read slots %d from %s: %v", o.ID, lifeName(o.Peer), o.Slots)
	case Noted:
		s := "note " + [...]string{"", "renewed", "lease expired", "completion ignored", "load failed", "turn pulled", "turn missed"}[o.What]
		if o.Request != "" {
			s += " of " + o.Request
		}
		if o.Blocks > 0 {
			s += fmt.Sprintf(", %d blocks", o.Blocks)
		}
		if o.Reason != "" {
			s += ": " + o.Reason
		}
		return s
	}
	return fmt.Sprintf("%#v", o)
}

func showHandle(h *Handle) string {
	s := fmt.Sprintf("handle(%d tokens in %v, slot %d nonce %d", h.Tokens, h.Blocks, h.Slot, h.Nonce)
	if h.Turn {
		s += fmt.Sprintf(", turn until %v", time.Duration(h.Expiry))
	}
	if h.Before != (TurnRef{}) {
		s += fmt.Sprintf(", after %s's %d", lifeName(h.Before.Life), h.Before.Nonce)
	}
	return s + ")"
}

func showLeaseMessage(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Heartbeat:
		s := fmt.Sprintf("heartbeat(%d to %d", m.Base, m.Version)
		if m.Full {
			s = fmt.Sprintf("heartbeat(all of %d", m.Version)
		}
		return s + showLeases(", joined", m.Joined) + showLeases(", left", m.Left) + ")"
	case *wire.HeartbeatAck:
		s := fmt.Sprintf("heartbeat-ack(%d", m.Version)
		if m.Resync {
			s += ", resync"
		}
		for _, r := range m.Refused {
			s += showLeases(", refused", []wire.Lease{r.Lease}) + ": " + r.Reason
		}
		return s + ")"
	case *wire.Complete:
		s := "complete(" + showLease(m.Lease) + " " + m.Status.String()
		if m.Reason != "" {
			s += ": " + short(m.Reason)
		}
		return s + ")"
	case *wire.Announce:
		s := fmt.Sprintf("announce(%s task %d epoch %d slice %d blocks [%d,%d) = %v, slot %d nonce %d",
			m.Request, m.Task, m.Epoch, m.Slice, m.Start, m.End, m.Blocks, m.Slot, m.Nonce)
		if m.Last {
			s += ", last"
		}
		if m.Aux != nil {
			s += fmt.Sprintf(", aux %d", m.Aux.First.Token)
		}
		return s + ")"
	case *wire.Clock:
		if m.Answered {
			return fmt.Sprintf("clock(sent %v, answered at %v)", time.Duration(m.Sent), time.Duration(m.Now))
		}
		return fmt.Sprintf("clock(sent %v)", time.Duration(m.Sent))
	}
	return fmt.Sprintf("%#v", m)
}

func showLeases(what string, list []wire.Lease) string {
	for _, l := range list {
		what += " " + showLease(l)
	}
	if len(list) == 0 {
		return ""
	}
	return what
}

func showLease(l wire.Lease) string { return fmt.Sprintf("%s/%d/%d", l.Request, l.Nonce, l.Attempt) }
