package transfer

import (
	"slices"

	"kvferry/wire"
)

// observe takes both sides' outputs, carries them out, and checks each against what came
// before it and what is in memory.
func (w *world) observe() {
	for _, o := range w.send.Outputs() {
		w.sendOutput(o)
	}
	for _, o := range w.recv.Outputs() {
		w.recvOutput(o)
	}
	if w.drop {
		w.lose()
		w.observe()
	}
}

func (w *world) sendOutput(o Output) {
	switch o := o.(type) {
	case Copy:
		w.copyBegins(o)
	case Notify:
		if w.conn == connUp {
			w.toD = append(w.toD, o.Msg)
		}
	case Commit:
		if w.committed || w.cursor < w.prompt {
			w.t.Fatalf("commit with %d of %d tokens computed, committed before: %v", w.cursor, w.prompt, w.committed)
		}
		w.committed = true
	case Drop:
		w.drop = true
	case Sent:
		w.terminal(&w.sendEnd, "sent")
		if !w.committed {
			w.t.Fatal("sent and not committed")
		}
	case Failed:
		w.terminal(&w.sendEnd, o.Err.Error())
	case Release:
		if w.srcFree || w.computing != nil || len(w.flights)+len(w.acks) > 0 || w.sendEnd == "" {
			w.t.Fatalf("the sender's blocks are released: before %v, %v", w.srcFree, w)
		}
		w.srcFree = true
		overwrite(w.src)
	}
}

func (w *world) copyBegins(c Copy) {
	last := c.Notice != nil && c.Notice.Last
	switch {
	case w.srcFree || w.sendEnd != "":
		w.t.Fatalf("a copy begins after the end: %v", w)
	case c.Notice == nil && (c.Layers.End > w.through || w.computing == nil || c.Layers.Len() == 0):
		w.t.Fatalf("layers %v leave of a chunk with %d written: %v", c.Layers, w.through, w)
	case c.Notice != nil && w.under(c.Slice):
		w.t.Fatalf("the result of slice %d leaves with its parts in flight: %v", c.Slice, w)
	case c.Notice != nil && last != (w.committed && c.Slice == len(w.send.slices)-1):
		w.t.Fatalf("slice %d of %d leaves as last: %v, with the record complete: %v", c.Slice, len(w.send.slices), last, w.committed)
	}
	f := &flight{copy: c}
	for _, g := range c.Groups {
		for i := range g.Src {
			f.pairs = append(f.pairs, blockPair{g.Group, g.Src[i], g.Dst[i]})
		}
	}
	w.flights = append(w.flights, f)
}

// under reports whether a copy of a slice is on its way, as far as the sender knows.
func (w *world) under(slice int) bool {
	return slices.Contains(w.acks, slice) || slices.ContainsFunc(w.flights, func(f *flight) bool { return f.copy.Slice == slice })
}

func (w *world) recvOutput(o Output) {
	switch o := o.(type) {
	case Notify:
		if w.conn == connUp {
			w.toP = append(w.toP, o.Msg)
		}
	case Revoke:
		if w.revoking {
			w.t.Fatal("revoked twice")
		}
		w.revoking = true
	case Received:
		w.terminal(&w.recvEnd, "received")
		w.whole()
	case Failed:
		w.terminal(&w.recvEnd, o.Err.Error())
	case Release:
		granted := w.conn != connNone && w.recv.Peer() != (wire.Life{})
		if w.dstFree || w.recvEnd == "" || w.recvEnd == "received" || (granted && !w.revoked) {
			w.t.Fatalf("the receiver's blocks are released: before %v, %v", w.dstFree, w)
		}
		if !w.fencing && len(w.flights) > 0 {
			w.t.Fatalf("quarantined blocks are released with %d copies in flight", len(w.flights))
		}
		w.dstFree = true
		overwrite(w.dst)
	}
}

// terminal notes a side's one terminal output.
func (w *world) terminal(end *string, what string) {
	if *end != "" {
		w.t.Fatalf("%q after %q", what, *end)
	}
	*end = what
}

// whole checks that every token in sight of the next one is in the receiver's blocks, and
// that nothing can be written into them any more.
func (w *world) whole() {
	if !w.revoked || w.dstFree {
		w.t.Fatalf("received with the epoch open, or after the release: %v", w)
	}
	tpb := w.layout.BlockTokens
	for g, group := range w.layout.Groups {
		for pos := range w.prompt {
			if group.Window > 0 && w.prompt-pos >= group.Window {
				continue
			}
			for i := range w.layers {
				if got := w.dst[g].at(dstBlock(g, pos/tpb), w.layers*tpb)[i*tpb+pos%tpb]; got != pos {
					w.t.Fatalf("received, and token %d of layer %d of group %d is %d: %v", pos, i, g, got, w)
				}
			}
		}
	}
}

// overwrite makes a read of released blocks show.
func overwrite(mems []memory) {
	for _, m := range mems {
		for _, block := range m {
			for i := range block {
				block[i] = poison
			}
		}
	}
}
