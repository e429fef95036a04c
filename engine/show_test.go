package engine

import (
	"fmt"
	"strings"
	"time"

	"kvferry/transfer"
	"kvferry/wire"
)

// show prints what the engine puts out, one output a line, and what it holds then. Records
// are left out: the scripts of package transfer show them.
func (s *script) show() string {
	var b strings.Builder
	for _, o := range s.e.Outputs() {
		if c, ok := o.(Compute); ok {
			s.out = c.Batch
		}
		if f, ok := o.(Finish); ok && f.Handle != nil {
			s.keep(f.Handle)
		}
		if _, ok := o.(Record); !ok {
			fmt.Fprintln(&b, showOutput(o))
		}
	}
	c := s.e.Counts()
	fmt.Fprintf(&b, "= %d of %d blocks free, %d running, %d waiting", c.Free, c.Blocks, c.Running, c.Waiting)
	for _, n := range []struct {
		name  string
		count int
	}{
		{"sending", c.Send},
		{"receiving", c.Receive},
		{"parked", c.Parked},
		{"offered", c.Offers},
		{"pulling", c.Pull},
		{"leased", c.Leases},
		{"turns", c.Turns},
		{"turn blocks", c.TurnBlocks},
		{"slots", s.e.lend.slots.InUse()},
		{"claims", len(s.e.pull.claims)},
		{"to tell", s.toTell()},
	} {
		if n.count > 0 {
			fmt.Fprintf(&b, ", %d %s", n.count, n.name)
		}
	}
	if d := s.e.Deadline(); d != transfer.Never {
		fmt.Fprintf(&b, ", deadline %v", time.Duration(d))
	}
	return b.String() + "\n"
}

// toTell is how many messages wait for a connection.
func (s *script) toTell() (n int) {
	for _, list := range s.e.pull.tell {
		n += len(list)
	}
	return n
}

func showOutput(o Output) string {
	switch o := o.(type) {
	case Compute:
		return "compute" + showBatch(o.Batch)
	case Token:
		return fmt.Sprintf("token of %s: %d shows %q", o.Request, o.Sampled.Token, o.Text)
	case Finish:
		return showFinish(o)
	case Connect:
		return "connect to " + o.Addr
	case Copy:
		blocks := 0
		for _, g := range o.Groups {
			blocks += len(g.Src)
		}
		return fmt.Sprintf("copy %d to %s under epoch %d: %d blocks, then %s", o.ID, lifeName(o.Peer), o.Epoch, blocks, showMessage(o.Notice))
	case Verify:
		return fmt.Sprintf("verify slice %d of rank %d under epoch %d: %v", o.Slice, o.Writer, o.Epoch, o.Groups)
	case transfer.Notify:
		return fmt.Sprintf("notify %s: %s", lifeName(o.Peer), showMessage(o.Msg))
	case transfer.Grant:
		return fmt.Sprintf("grant %s epoch %d: %v", lifeName(o.Peer), o.Epoch, o.Blocks)
	case transfer.Revoke:
		return fmt.Sprintf("revoke epoch %d", o.Epoch)
	case transfer.Drop:
		return fmt.Sprintf("drop %s: %v", lifeName(o.Peer), o.Err)
	}
	return showLeaseOutput(o)
}

// showBatch prints of each request the positions it computes, and which it draws a token for.
func showBatch(batch []Work) string {
	s := ""
	for _, w := range batch {
		s += fmt.Sprintf(" %s[%d,%d)", w.Request, w.Start, w.Start+len(w.Tokens))
		if w.Sample != nil {
			s += fmt.Sprintf("->%d", w.Sample.Position)
		}
	}
	return s
}

func showFinish(f Finish) string {
	s := "finish " + f.Request
	if f.Err != nil {
		s += ": " + short(f.Err.Error())
	}
	if f.Reason != "" {
		s += fmt.Sprintf(": %s", f.Reason)
	}
	if len(f.Text) > 0 {
		s += fmt.Sprintf(" shows %q", f.Text)
	}
	if f.Err != nil {
		return s
	}
	s += fmt.Sprintf(", %d+%d tokens", f.Prompt, f.Completion)
	if f.Cached > 0 {
		s += fmt.Sprintf(", %d cached", f.Cached)
	}
	if f.Handle != nil {
		s += ", " + showHandle(f.Handle)
	}
	return s
}

func showMessage(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Result:
		s := fmt.Sprintf("result(%s task %d epoch %d slice %d %s", m.Request, m.Task, m.Epoch, m.Slice, m.Status)
		if m.Last {
			s += fmt.Sprintf(", last of %d", m.Count)
		}
		if m.Aux != nil {
			s += fmt.Sprintf(", aux %d", m.Aux.First.Token)
		}
		if m.Reason != "" {
			s += ": " + short(m.Reason)
		}
		return s + ")"
	case *wire.Register:
		reading := ""
		if m.Read {
			reading = " to read"
		}
		return fmt.Sprintf("register(%s task %d epoch %d prompt %d blocks %v%s)", m.Request, m.Task, m.Epoch, m.PromptLen, m.Blocks, reading)
	case *wire.Withdraw:
		return fmt.Sprintf("withdraw(%s epoch %d: %s)", m.Request, m.Epoch, short(m.Reason))
	case *wire.Progress:
		return fmt.Sprintf("progress(%s task %d epoch %d)", m.Request, m.Task, m.Epoch)
	}
	return showLeaseMessage(m)
}

// lifeName undoes life.
func lifeName(l wire.Life) string { return strings.TrimRight(string(l[:]), "\x00") }

// short leaves out of a life the zeros after its letter.
func short(s string) string {
	for c := byte('A'); c <= 'Z'; c++ {
		s = strings.ReplaceAll(s, life(string(c)).String(), string(c))
	}
	return s
}
