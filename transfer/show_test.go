package transfer

import (
	"fmt"
	"strings"
	"time"

	"kvferry/wire"
)

// showOutputs prints what a machine puts out, one output a line.
func showOutputs(outs []Output) string {
	var b strings.Builder
	for _, o := range outs {
		b.WriteString(showOutput(o))
		b.WriteByte('\n')
	}
	return b.String()
}

func showOutput(o Output) string {
	switch o := o.(type) {
	case Copy:
		how := ""
		if o.Writer > 0 {
			how = fmt.Sprintf(" by rank %d", o.Writer)
		}
		if o.Checksum {
			how += ", summed up,"
		}
		if o.Notice == nil || o.Layers.Start > 0 {
			how += fmt.Sprintf(" layers [%d,%d)", o.Layers.Start, o.Layers.End)
		}
		out := fmt.Sprintf("copy %d%s to %s under epoch %d:%s", o.Slice, how, lifeName(o.Peer), o.Epoch, showGroups(o.Groups))
		if o.Notice == nil {
			return out
		}
		return out + ", then " + showMessage(o.Notice)
	case Verify:
		return fmt.Sprintf("verify slice %d of rank %d:%s", o.Slice, o.Writer, showArrived(o.Groups))
	case Notify:
		return fmt.Sprintf("notify %s: %s", lifeName(o.Peer), showMessage(o.Msg))
	case Grant:
		s := fmt.Sprintf("grant %s epoch %d:", lifeName(o.Peer), o.Epoch)
		for g, blocks := range o.Blocks {
			s += fmt.Sprintf(" g%d %v", g, blocks)
		}
		return s
	case Revoke:
		return fmt.Sprintf("revoke epoch %d", o.Epoch)
	case Drop:
		return fmt.Sprintf("drop %s: %v", lifeName(o.Peer), o.Err)
	case Failed:
		return fmt.Sprintf("failed: %s", short(o.Err.Error()))
	case Sent:
		return "sent: " + showStats(o.Stats)
	case Received:
		return fmt.Sprintf("received first token %d: %s", o.Aux.First.Token, showStats(o.Stats))
	case Offered:
		out := fmt.Sprintf("offered, aux %d:", o.Aux.First.Token)
		for g, t := range o.Tables {
			out += fmt.Sprintf(" g%d %d+%v", g, t.First, t.Blocks)
		}
		return out
	case Read:
		return fmt.Sprintf("read %d from rank %d of %s:%s", o.Slice, o.Writer, lifeName(o.Peer), showGroups(o.Groups))
	case CheckSlot:
		return fmt.Sprintf("check slot %d of rank %d of %s", o.Slot, o.Writer, lifeName(o.Peer))
	case Pulled:
		if o.Aux == nil {
			return "pulled: " + showStats(o.Stats)
		}
		return fmt.Sprintf("pulled with first token %d: %s", o.Aux.First.Token, showStats(o.Stats))
	case Unusable:
		return fmt.Sprintf("unusable: %s", short(o.Err.Error()))
	case Record:
		return fmt.Sprintf("record: slice %d %s", o.Slice, [...]string{1: "due", 2: "posted", 3: "landed"}[o.What])
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "transfer."))
}

func showGroups(groups []GroupCopy) string {
	if len(groups) == 0 {
		return " nothing"
	}
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, " g%d %v->%v", g.Group, g.Src, g.Dst)
	}
	return b.String()
}

func showArrived(groups []GroupCopy) string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, " g%d %v", g.Group, g.Dst)
	}
	return b.String()
}

func showMessage(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Result:
		s := fmt.Sprintf("result(task %d epoch %d", m.Task, m.Epoch)
		if m.Status == wire.StatusOK {
			if m.Writer > 0 {
				s += fmt.Sprintf(" rank %d", m.Writer)
			}
			s += fmt.Sprintf(" slice %d, %d bytes", m.Slice, m.Bytes)
		}
		if m.Last && m.Status == wire.StatusOK {
			s += fmt.Sprintf(", last of %d", m.Count)
		}
		if m.Aux != nil {
			s += fmt.Sprintf(", aux %d", m.Aux.First.Token)
		}
		if m.Status != wire.StatusOK {
			s += fmt.Sprintf(" %s: %s", m.Status, short(m.Reason))
			if m.Last {
				s += "; drained"
			}
		}
		return s + ")"
	case *wire.Register:
		s := fmt.Sprintf("register(task %d epoch %d prompt %d start %d blocks %v", m.Task, m.Epoch, m.PromptLen, m.DstStart, m.Blocks)
		if m.Checksum {
			s += " with checksums"
		}
		if m.Read {
			s += " for reading"
		}
		return s + ")"
	case *wire.Withdraw:
		return fmt.Sprintf("withdraw(epoch %d: %s)", m.Epoch, short(m.Reason))
	case *wire.Announce:
		s := fmt.Sprintf("announce(task %d epoch %d slice %d, blocks [%d,%d): %v, slot %d nonce %d",
			m.Task, m.Epoch, m.Slice, m.Start, m.End, m.Blocks, m.Slot, m.Nonce)
		if m.Last {
			s += fmt.Sprintf(", last, aux %d", m.Aux.First.Token)
		}
		return s + ")"
	case *wire.Complete:
		s := fmt.Sprintf("complete(%s nonce %d attempt %d, %s", m.Lease.Request, m.Lease.Nonce, m.Lease.Attempt, m.Status)
		if m.Reason != "" {
			s += ": " + short(m.Reason)
		}
		return s + ")"
	case *wire.Progress:
		return fmt.Sprintf("progress(task %d epoch %d)", m.Task, m.Epoch)
	}
	return fmt.Sprintf("%#v", m)
}

// short leaves out of a life the zeros after its letter.
func short(s string) string {
	for c := byte('A'); c <= 'Z'; c++ {
		s = strings.ReplaceAll(s, life(string(c)).String(), string(c))
	}
	return s
}

func showStats(s Stats) string {
	out := fmt.Sprintf("%d slices, %d bytes", s.Slices, s.Bytes)
	if s.Busy > 0 {
		out += fmt.Sprintf(", busy %v, hidden %v, exposed %v",
			time.Duration(s.Busy), time.Duration(s.Hidden), time.Duration(s.Exposed))
	}
	return out
}

func showDeadline(at int64) string {
	if at == Never {
		return "no deadline"
	}
	return fmt.Sprintf("deadline %v", time.Duration(at))
}

func (s SendStatus) name() string {
	return [...]string{"init", "ready", "transferring", "transferred", "fully transferred", "error"}[s]
}
