package transfer

import "errors"

// observe takes both sides' outputs, carries them out, and checks each against what came before
// it and what is in memory.
func (w *readWorld) observe() {
	var outs []Output
	if w.handle {
		outs = w.offer.Outputs()
	} else {
		outs = w.send.Outputs()
	}
	for _, o := range outs {
		w.holderOutput(o)
	}
	if w.pull != nil {
		for _, o := range w.pull.Outputs() {
			w.pullOutput(o)
		}
	}
	if w.drop {
		w.lose()
		w.observe()
	}
}

func (w *readWorld) holderOutput(o Output) {
	switch o := o.(type) {
	case Notify:
		if w.conn == connUp {
			w.toD = append(w.toD, o.Msg)
		}
	case Commit:
		if w.committed || w.cursor < w.prompt {
			w.t.Fatalf("commit with %d of %d tokens computed, committed before: %v", w.cursor, w.prompt, w.committed)
		}
		w.committed = true
	case Offered:
		if !w.committed || w.pull != nil {
			w.t.Fatalf("offered: %v", w)
		}
		src := &Source{End: w.layout.TotalBlocks(w.prompt), Slot: pullSlot, Nonce: w.nonce}
		for _, t := range o.Tables {
			src.Blocks = append(src.Blocks, t.Blocks)
		}
		w.cfg.Source, w.cfg.Lease.Nonce = src, w.nonce
		w.pull = NewPull(w.cfg, w.now)
	case Copy:
		w.t.Fatalf("something is written to a reader: %v", w)
	case Release:
		if w.srcFree || w.passing != nil || w.holderUses() {
			w.t.Fatalf("the holder's blocks are released: before %v, %v", w.srcFree, w)
		}
		w.srcFree = true
		w.give()
	}
}

func (w *readWorld) pullOutput(o Output) {
	switch o := o.(type) {
	case Notify:
		if w.conn == connUp {
			w.toP = append(w.toP, o.Msg)
		}
	case Read:
		if w.pullEnd != "" {
			w.t.Fatalf("a read begins after the end: %v", w)
		}
		f := &readFlight{read: o}
		for _, g := range o.Groups {
			for i := range g.Src {
				if len(w.ranks.Pieces(o.Writer, g.Group)) > 0 {
					f.pairs = append(f.pairs, blockPair{g.Group, g.Src[i], g.Dst[i]})
				}
			}
		}
		w.flights = append(w.flights, f)
	case CheckSlot:
		if len(w.flights) > 0 || !w.verify {
			w.t.Fatalf("a slot is looked at: %v", w)
		}
		w.checks = append(w.checks, &slotFlight{check: o})
	case Pulled:
		w.pullTerminal("pulled")
		if len(w.flights)+len(w.checks) > 0 {
			w.t.Fatalf("pulled with reads under way: %v", w)
		}
		w.corrupt = !w.whole()
	case Failed:
		w.pullTerminal(o.Err.Error())
		w.note(o.Err)
	case Unusable:
		w.pullTerminal(o.Err.Error())
		w.note(o.Err)
		w.leave()
	case Release:
		if w.pullEnd == "" || w.pullEnd == "pulled" {
			w.t.Fatalf("the reader's blocks are released: %v", w)
		}
		w.leave()
	case Drop:
		w.drop = true
	}
}

func (w *readWorld) pullTerminal(what string) {
	if w.pullEnd != "" {
		w.t.Fatalf("%q after %q", what, w.pullEnd)
	}
	w.pullEnd = what
}

func (w *readWorld) note(err error) {
	var v *VerifyError
	w.lapsed = w.lapsed || errors.As(err, &v) && v.Reason == ReasonLapsed
}

// leave is when a failed load's blocks may be used for something else.
func (w *readWorld) leave() {
	if w.dstGone || len(w.flights) > 0 {
		w.t.Fatalf("the reader's blocks are free: before %v, %v", w.dstGone, w)
	}
	w.dstGone = true
}

// whole reports whether every token in sight of the next one is in the reader's blocks.
func (w *readWorld) whole() bool {
	tpb := w.layout.BlockTokens
	for g, group := range w.layout.Groups {
		for pos := range w.cfg.Tokens {
			if group.Window > 0 && w.cfg.Tokens-pos >= group.Window {
				continue
			}
			if w.dst[g].at(dstBlock(g, pos/tpb), tpb)[pos%tpb] != pos {
				return false
			}
		}
	}
	return true
}
