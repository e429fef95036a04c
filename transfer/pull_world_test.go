package transfer

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/wire"
)

// readWorld joins a holder, which is an Offer or a Send that announces, and the Pull that reads
// from it, by a wire that reorders and repeats announcements and reads block by block. It keeps the
// tokens in both memories and what is in the lease slot. Blocks are overwritten in the instant in
// which they are free, so that whatever is read after that shows, and the slot is zeroed before.
type readWorld struct {
	t       *rapid.T
	layout  kvcache.Layout
	prompt  int
	ranks   *Mapping
	handle  bool // a handle is read; otherwise slices are announced
	verify  bool
	now     int64
	offer   *Offer
	send    *Send
	pull    *Pull
	cfg     PullConfig
	src     []memory
	dst     []memory
	tables  []kvcache.BlockTable // of the holder
	slot    int64
	nonce   uint64 // of the last scheduling; 0 before and while preempted
	nonces  uint64
	cursor  int
	passing *kvcache.Chunk
	flights []*readFlight
	checks  []*slotFlight
	toP     []wire.Message // in order
	toD     []wire.Message // in no order
	conn    connection
	drop    bool

	committed        bool
	srcFree, dstGone bool // released; released, or left to the owner
	pullEnd          string
	corrupt, lapsed  bool
}

// readFlight is a read on its way.
type readFlight struct {
	read  Read
	pairs []blockPair // not read yet
}

// slotFlight is the read of a slot, which sees what is in the slot at some instant of its way.
type slotFlight struct {
	check CheckSlot
	seen  bool
	value int64
}

const pullSlot = 3

func newReadWorld(t *rapid.T, verify bool) *readWorld {
	var groups []int
	for range rapid.IntRange(1, 2).Draw(t, "groups") {
		groups = append(groups, rapid.SampledFrom([]int{0, 1, 4, 7}).Draw(t, "window"))
	}
	w := &readWorld{
		t: t, layout: layoutOf(rapid.IntRange(1, 4).Draw(t, "tpb"), groups...), verify: verify,
		prompt: rapid.IntRange(1, 14).Draw(t, "prompt"), handle: rapid.Bool().Draw(t, "handle"),
	}
	w.ranks = oneToOne(w.layout)
	if len(groups) == 2 && rapid.Bool().Draw(t, "stages") {
		var err error
		w.ranks, err = NewMapping(w.layout, kvcache.Parallel{Tensor: 1, Pipeline: 2}, kvcache.Parallel{Tensor: 1, Pipeline: 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range groups {
		w.src, w.dst = append(w.src, memory{}), append(w.dst, memory{})
	}
	w.tables = srcTables(w.layout, w.prompt)
	w.configure()
	if w.handle {
		w.offer = NewOffer(OfferConfig{Request: "r", Layout: w.layout, PromptLen: w.prompt}, 0)
		return w
	}
	w.send = NewSend(SendConfig{
		Request: "r", Layout: w.layout, PromptLen: w.prompt, TokenHash: w.cfg.TokenHash, Pipelined: true, Timeout: w.cfg.Timeout,
	}, 0)
	w.pull = NewPull(w.cfg, 0)
	return w
}

// configure draws the reader and puts into its memory what it has already.
func (w *readWorld) configure() {
	w.cfg = PullConfig{
		Request: "r", Layout: w.layout, Tokens: w.prompt, Task: 3, Epoch: 7, PromptLen: w.prompt,
		TokenHash: wire.TokenHash(tokensOf(w.prompt)), Lease: wire.Lease{Request: "r"},
		Verify: w.verify, Recompute: rapid.Bool().Draw(w.t, "recompute"), Timeout: 12,
	}
	if w.handle {
		w.cfg.Tokens = w.prompt - 1
	}
	tpb := w.layout.BlockTokens
	w.cfg.DstStart = tpb * rapid.IntRange(0, w.cfg.Tokens/tpb).Draw(w.t, "here")
	w.cfg.Tables = dstTables(w.layout, w.cfg.Tokens, w.prompt+5)
	for g := range w.dst {
		for pos := range w.cfg.DstStart {
			w.dst[g].at(dstBlock(g, pos/tpb), tpb)[pos%tpb] = pos
		}
	}
}

// holder steps whichever holds the blocks.
func (w *readWorld) holder(ev interface {
	SendEvent
	OfferEvent
},
) {
	if w.handle {
		w.offer.Step(w.now, ev)
	} else {
		w.send.Step(w.now, ev)
	}
}

func (w *readWorld) holderEnded() bool {
	if w.handle {
		return w.offer.Ended()
	}
	return w.send.Ended()
}

func (w *readWorld) holderUses() bool {
	if w.handle {
		return w.offer.InFlight()
	}
	return w.send.InFlight()
}

// start schedules the next chunk; with the first one after a preemption the slot gets a nonce that
// it never had.
func (w *readWorld) start() {
	if w.nonce == 0 {
		w.nonces++
		w.nonce = 90 + w.nonces
		w.slot = int64(w.nonce)
		if !w.handle {
			w.send.Step(w.now, Slotted{Slot: pullSlot, Nonce: w.nonce})
		}
	}
	end := rapid.IntRange(w.cursor+1, w.prompt).Draw(w.t, "end")
	w.passing = &kvcache.Chunk{Start: w.cursor, End: end, First: w.cursor == 0, Last: end == w.prompt}
	w.holder(ChunkStarted{})
}

func (w *readWorld) compute(err error) {
	c := *w.passing
	w.passing = nil
	tpb := w.layout.BlockTokens
	for g := range w.src {
		for pos := c.Start; pos < c.End && err == nil; pos++ {
			w.src[g].at(srcBlock(g, pos/tpb), tpb)[pos%tpb] = pos
		}
	}
	ev := ChunkComputed{Chunk: c, Tables: w.tables, Err: err}
	if c.Last && err == nil {
		ev.Aux = &wire.Aux{First: wire.TokenLogprob{Token: 42}}
	}
	w.cursor = c.End
	w.holder(ev)
}

// preempt gives the blocks to others while nothing of them is promised.
func (w *readWorld) preempt() {
	w.give()
	w.cursor, w.nonce = 0, 0
	w.holder(TakenBack{})
}

// give zeroes the slot, and then the blocks are somebody else's.
func (w *readWorld) give() {
	w.slot = 0
	overwrite(w.src)
}

// land reads a flight's next block, whoever's it is by now, or ends the read.
func (w *readWorld) land(f *readFlight) {
	if len(f.pairs) == 0 {
		w.endRead(f, nil)
		return
	}
	p := f.pairs[0]
	f.pairs = f.pairs[1:]
	if w.dstGone {
		w.t.Fatalf("a block is read into what is not ours any more: %v", w)
	}
	tpb := w.layout.BlockTokens
	copy(w.dst[p.group].at(p.dst, tpb), w.src[p.group].at(p.src, tpb))
}

func (w *readWorld) endRead(f *readFlight, err error) {
	w.flights = slices.DeleteFunc(w.flights, func(o *readFlight) bool { return o == f })
	w.pull.Step(w.now, ReadDone{Slice: f.read.Slice, Writer: f.read.Writer, Err: err})
}

// look reads a slot, or brings what was read.
func (w *readWorld) look(f *slotFlight) {
	if !f.seen {
		f.seen, f.value = true, w.slot
		return
	}
	w.endCheck(f, nil)
}

func (w *readWorld) endCheck(f *slotFlight, err error) {
	w.checks = slices.DeleteFunc(w.checks, func(o *slotFlight) bool { return o == f })
	w.pull.Step(w.now, SlotRead{Writer: f.check.Writer, Value: f.value, Err: err})
}

// deliverToP brings the oldest message to the holder. A Complete counts if it is of the nonce.
func (w *readWorld) deliverToP() {
	m := w.toP[0]
	w.toP = w.toP[1:]
	switch m := m.(type) {
	case *wire.Register:
		if w.send.Ended() {
			w.toD = append(w.toD, Refusal(m, wire.StatusGone, errors.New("ended")))
			return
		}
		w.send.Step(w.now, Registered{
			Peer: lifeD, Msg: m, PoolBlocks: pools(w.layout), Ranks: w.ranks, HasSlot: true, Slot: pullSlot, Nonce: w.nonce,
		})
	case *wire.Complete:
		if m.Lease.Nonce == w.nonce || m.Lease.Nonce == 0 {
			w.holder(Completed{Status: m.Status, Reason: m.Reason})
		}
	}
}

func (w *readWorld) deliverToD(i int, keep bool) {
	m := w.toD[i]
	if !keep {
		w.toD = slices.Delete(w.toD, i, i+1)
	}
	switch m := m.(type) {
	case *wire.Announce:
		w.pull.Step(w.now, Announced{Peer: lifeP, Msg: m})
	case *wire.Result:
		w.pull.Step(w.now, ResultCame{Peer: lifeP, Msg: m})
	case *wire.Progress:
		w.pull.Step(w.now, ProgressCame{Peer: lifeP, Msg: m})
	}
}

// lose breaks the connection: reads end, then both sides hear of it. What is held stays held.
func (w *readWorld) lose() {
	w.conn, w.drop, w.toP, w.toD = connLost, false, nil, nil
	for len(w.flights) > 0 {
		w.endRead(w.flights[0], errLine)
		w.observe()
	}
	for len(w.checks) > 0 {
		w.endCheck(w.checks[0], errLine)
		w.observe()
	}
	w.pull.Step(w.now, PeerGone{Peer: lifeP, Err: errLine})
	if !w.handle {
		w.send.Step(w.now, PeerGone{Peer: lifeD, Err: errLine})
	}
}

func (w *readWorld) tick(now int64) {
	w.now = now
	if w.send != nil {
		w.send.Tick(now)
	}
	if w.pull != nil {
		w.pull.Tick(now)
	}
}

func (w *readWorld) deadline() int64 {
	d := Never
	if w.send != nil {
		d = min(d, w.send.Deadline())
	}
	if w.pull != nil {
		d = min(d, w.pull.Deadline())
	}
	return d
}

// over says that both sides have ended and nothing is under way.
func (w *readWorld) over() bool {
	return w.holderEnded() && (w.pull == nil || w.pull.Ended()) && w.passing == nil && len(w.flights) == 0
}

func (w *readWorld) String() string {
	holder, pull := "", "none"
	if w.handle {
		holder = "offer " + w.offer.Phase()
	} else {
		holder = "send " + w.send.Phase()
	}
	if w.pull != nil {
		pull = w.pull.Phase()
	}
	return fmt.Sprintf("time %d, deadline %d: %s, free %v, slot %d; pull %s (%q); %d reads, %d slot reads, to P %d, to D %d, connection %d",
		w.now, w.deadline(), holder, w.srcFree, w.slot, pull, w.pullEnd, len(w.flights), len(w.checks), len(w.toP), len(w.toD), w.conn)
}
