package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// TestHostilePeers gives an engine of either role events and messages in any order, of peers that
// say what they like and handles that name what they like, while its own shell keeps its word. It
// never panics; nothing is given back that is read into, or that a slot of ours still proves; each
// request has one end; and when all is over nothing is held: no block, no slot, no claim, no lease.
//
// req: LEASE-14
// req: LEASE-16
// req: LEASE-17
// req: LEASE-21
func TestHostilePeers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHostile(t)
		for i, addr := range []string{"a", "b"} {
			h.e.Step(0, PeerUp{Addr: addr, Peer: life(hostilePeers[i]), PoolBlocks: []int{16}, Slots: 4, LeaseDuration: 6e9})
		}
		h.perform()
		for range rapid.IntRange(20, 150).Draw(t, "steps") {
			acts := h.acts()
			names := slices.Sorted(maps.Keys(acts))
			for _, often := range []string{"computed", "copied", "message", "slots", "submit"} {
				if acts[often] != nil {
					names = append(names, often, often)
				}
			}
			acts[pick(t, names, "act")]()
			h.perform()
		}
		h.drain()
	})
}

// hostile is an engine and what its shell has still to answer.
type hostile struct {
	t       *rapid.T
	e       *Engine
	cfg     Config
	now     int64
	next    int
	pass    []Work
	reads   map[uint64]Read
	copies  map[uint64]wire.Life
	checks  map[uint64]ReadSlots
	revokes []uint64
	verify  []Verify
	slots   map[int]uint64
	handles []*Handle // that ours ended with
	open    map[string]bool
	prompts map[string]int
	posted  []*wire.Register // by us
}

func newHostile(t *rapid.T) *hostile {
	h := &hostile{
		t: t, reads: map[uint64]Read{}, copies: map[uint64]wire.Life{}, checks: map[uint64]ReadSlots{},
		slots: map[int]uint64{}, open: map[string]bool{}, prompts: map[string]int{},
	}
	drawn := uint64(0)
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	h.cfg = Config{
		Role: rapid.SampledFrom([]Role{Prefill, Decode}).Draw(t, "role"), Layout: layoutOf(4, 0), Life: life("S"),
		Blocks: []int{rapid.IntRange(5, 16).Draw(t, "blocks")}, MaxSeqs: rapid.IntRange(1, 3).Draw(t, "seqs"), MaxWaiting: 4,
		Chunked: true, ChunkTokens: 4, Pipelined: flag("pipelined"), Timeout: 12e9, Context: 20,
		Ends: []int32{0}, Text: letter, Fencing: flag("fencing"), Checksum: flag("checksum"), Grow: flag("grow"),
		Reuse: flag("reuse"), LeaseDuration: 6e9, Slots: rapid.IntRange(0, 3).Draw(t, "slots"),
		Draw: func() uint64 { drawn++; return drawn }, VerifyLeases: flag("verify"), Recompute: flag("recompute"),
		RecomputeThreshold: rapid.IntRange(0, 5).Draw(t, "threshold"), ReadOnly: flag("read only"),
		TurnTTL: rapid.SampledFrom([]int64{0, 5e9}).Draw(t, "ttl"),
	}
	var err error
	if h.e, err = New(h.cfg); err != nil {
		t.Fatal(err)
	}
	h.e.WrapPools(func(m kvcache.Manager) kvcache.Manager { return guarded{m, h} })
	return h
}

// guarded sees what is given back.
type guarded struct {
	kvcache.Manager
	h *hostile
}

func (g guarded) Give(hold *kvcache.Holding) {
	has := func(b kvcache.BlockID) bool {
		return slices.ContainsFunc(hold.Tables, func(t kvcache.BlockTable) bool { return slices.Contains(t.Blocks, b) })
	}
	reads := maps.Clone(g.h.reads)
	slots := maps.Clone(g.h.slots)
	for _, o := range g.h.e.out {
		switch o := o.(type) {
		case Read:
			reads[o.ID] = o
		case SetSlot:
			slots[o.Slot] = o.Value
		}
	}
	for _, r := range reads {
		for _, c := range r.Groups {
			if slices.ContainsFunc(c.Dst, has) {
				g.h.t.Fatalf("blocks %v are given back, and read %d goes into %v", hold.Tables, r.ID, c.Dst)
			}
		}
	}
	for _, k := range g.h.handles {
		if k.Slot >= 0 && slots[k.Slot] == k.Nonce && !g.h.cfg.Reuse && slices.ContainsFunc(k.Blocks[0], has) {
			g.h.t.Fatalf("blocks %v are given back, and slot %d still proves %v", hold.Tables, k.Slot, k.Blocks)
		}
	}
	g.Manager.Give(hold)
}

var hostilePeers = []string{"A", "B", "S"}

func (h *hostile) int(name string, from, to int) int { return rapid.IntRange(from, to).Draw(h.t, name) }

func (h *hostile) peer() wire.Life { return life(pick(h.t, hostilePeers, "peer")) }

func (h *hostile) id() string { return fmt.Sprint("r", h.int("id", 0, max(3, h.next))) }

func (h *hostile) addr() string {
	return pick(h.t, []string{"a", "b", ""}, "addr")
}

func (h *hostile) acts() map[string]func() {
	step := func(ev Event) { h.e.Step(h.now, ev) }
	acts := map[string]func(){
		"submit":  func() { h.submit() },
		"abort":   func() { step(Abort{ID: h.id(), Cause: transfer.ErrCancelled}) },
		"forget":  func() { step(Forget{Request: h.id(), Nonce: uint64(h.int("nonce", 0, 4))}) },
		"message": func() { step(Message{Peer: h.peer(), Msg: h.message()}) },
		"up": func() {
			step(PeerUp{Addr: h.addr(), Peer: h.peer(), PoolBlocks: []int{16}, Slots: h.int("slots", 0, 4), LeaseDuration: 6e9})
		},
		"lost": func() { h.lost(h.peer()) },
		"connect fails": func() {
			step(ConnectFailed{Addr: pick(h.t, []string{"a", "b"}, "addr"), Err: errLine})
		},
		"time": func() {
			h.now += int64(h.int("seconds", 0, 14)) * 1e9
			h.e.Tick(h.now)
		},
	}
	if h.pass != nil {
		acts["computed"] = func() { h.computed(h.int("pass fails", 0, 9) == 0) }
	}
	if len(h.reads)+len(h.copies) > 0 {
		acts["copied"] = func() { h.copied(h.int("read fails", 0, 4) == 0) }
	}
	if len(h.checks) > 0 {
		acts["slots"] = func() { h.slotsRead(h.int("read fails", 0, 4) == 0) }
	}
	if len(h.revokes) > 0 {
		acts["revoked"] = h.revoked
	}
	if len(h.verify) > 0 {
		acts["verified"] = h.verified
	}
	return acts
}

func (h *hostile) submit() {
	r := Request{
		ID: fmt.Sprint("r", h.next), Peer: pick(h.t, []string{"a", "b"}, "from"), MaxTokens: h.int("max", 1, 6),
		Tokens: tokensOf(h.int("prompt", 1, 15)), Logprobs: -1, Attempt: uint32(h.int("attempt", 0, 2)),
	}
	h.next++
	if h.int("leg", 0, 4) > 0 {
		r.Leg = map[Role]Leg{Prefill: PrefillLeg, Decode: DecodeLeg}[h.cfg.Role]
		r.Hold = r.Leg == PrefillLeg && h.int("hold", 0, 3) > 0
		if (r.Hold || r.Leg == DecodeLeg) && h.int("pull", 0, 2) > 0 {
			r.Pull = h.handle(r.Tokens)
			r.Pull.Turn = r.Hold
		}
	}
	h.open[r.ID], h.prompts[r.ID] = true, len(r.Tokens)
	h.e.Step(h.now, Submit{r})
}

// handle is a good one, in which fields are changed.
func (h *hostile) handle(prompt []int32) *Handle {
	k := &Handle{
		Life: h.peer(), Addr: h.addr(), Request: h.id(), Tokens: len(prompt), Hashes: kvcache.Chain("", 4, prompt),
		Slot: h.int("slot", 0, 3), Expiry: h.now + int64(h.int("expiry", -1, 20))*1e9,
		Before: TurnRef{Life: h.peer(), Nonce: uint64(h.int("before", 0, 4))}, Cached: h.int("cached", -1, 20),
	}
	var list []kvcache.BlockID
	for b := range h.cfg.Layout.TotalBlocks(len(prompt)) {
		list = append(list, kvcache.BlockID(b))
	}
	k.Blocks = [][]kvcache.BlockID{list}
	k.Nonce = uint64(k.Slot) + 1
	if addr := []string{"a", "b"}; h.int("known", 0, 4) > 0 {
		i := h.int("holder", 0, 1)
		k.Life, k.Addr = life(hostilePeers[i]), addr[i]
	}
	switch h.int("spoilt", 0, 12) {
	case 0:
		k.Tokens = pick(h.t, []int{-1 << 62, -1, 0, 3, 1 << 40, 1<<63 - 1}, "tokens")
	case 1:
		k.Hashes = nil
	case 2:
		k.Hashes = k.Hashes[:h.int("hashes", 0, len(k.Hashes))]
	case 3:
		k.Slot = pick(h.t, []int{-1, -5, 4, 1 << 40}, "slot")
	case 4:
		k.Nonce = 0
	case 5:
		k.Blocks = nil
	case 6:
		k.Blocks = append(k.Blocks, list)
	case 7:
		k.Blocks[0][0] = pick(h.t, []kvcache.BlockID{-1, 16, 1 << 30}, "block")
	}
	return k
}

func (h *hostile) lease() wire.Lease {
	id := h.id()
	for _, k := range h.handles {
		if k.Request == id && rapid.Bool().Draw(h.t, "known") {
			return wire.Lease{Request: id, Nonce: k.Nonce}
		}
	}
	return wire.Lease{Request: id, Nonce: uint64(h.int("nonce", 0, 4)), Attempt: uint32(h.int("attempt", 0, 2))}
}

func (h *hostile) leases() (out []wire.Lease) {
	for range h.int("leases", 0, 2) {
		out = append(out, h.lease())
	}
	return out
}

func (h *hostile) message() wire.Message {
	small := func(name string) uint32 { return uint32(h.int(name, 0, 3)) }
	aux := &wire.Aux{First: wire.TokenLogprob{Token: int32(h.int("token", 0, 3))}, Cached: small("cached")}
	if rapid.Bool().Draw(h.t, "no aux") {
		aux = nil
	}
	ids := [][]int32{{int32(h.int("block", -1, 17))}}
	switch h.int("kind", 0, 8) {
	case 0:
		return &wire.Heartbeat{
			Full: rapid.Bool().Draw(h.t, "full"), Base: uint64(small("base")), Version: uint64(small("version")),
			Joined: h.leases(), Left: h.leases(),
		}
	case 1:
		m := &wire.HeartbeatAck{Version: uint64(small("version")), Resync: rapid.Bool().Draw(h.t, "resync")}
		for _, l := range h.leases() {
			m.Refused = append(m.Refused, wire.LeaseRefusal{Lease: l, Reason: "so"})
		}
		return m
	case 2:
		return &wire.Complete{Lease: h.lease(), Status: pick(h.t, []wire.Status{wire.StatusOK, wire.StatusFailed, wire.StatusCancelled}, "status")}
	case 3:
		if len(h.posted) > 0 && h.int("fits", 0, 5) > 0 {
			return h.announcement(pick(h.t, h.posted, "of"))
		}
		m := &wire.Announce{
			Request: h.id(), Task: small("task"), Epoch: uint64(small("epoch")), Slot: small("slot"), Nonce: uint64(small("nonce")),
			Slice: small("slice"), Last: aux != nil, Start: small("start"), Aux: aux, Blocks: ids,
		}
		m.End = m.Start + small("len")
		return m
	case 4:
		return &wire.Clock{Sent: int64(h.int("sent", -1, 30)) * 1e9, Answered: rapid.Bool().Draw(h.t, "answered"), Now: int64(h.int("now", -1, 30)) * 1e9}
	case 5:
		id, n := h.id(), h.int("prompt", 0, 15)
		if len := h.prompts[id]; len > 0 && h.int("fits", 0, 3) > 0 {
			n = len
		}
		m := &wire.Register{
			Request: id, Task: small("task"), Epoch: uint64(small("epoch")), PromptLen: uint32(n), TokenHash: wire.TokenHash(tokensOf(n)),
			Read: rapid.Bool().Draw(h.t, "read"), Blocks: [][]int32{nil}, DstStart: 4 * uint32(max(0, h.int("dst", -6, 3))),
		}
		for b := range h.cfg.Layout.TotalBlocks(n) {
			m.Blocks[0] = append(m.Blocks[0], int32(b))
		}
		return m
	case 6:
		return &wire.Withdraw{Request: h.id(), Epoch: uint64(small("epoch"))}
	case 7:
		return &wire.Progress{Request: h.id(), Task: small("task"), Epoch: uint64(small("epoch"))}
	}
	m := &wire.Result{
		Request: h.id(), Task: small("task"), Epoch: uint64(small("epoch")), Slice: small("slice"), Last: aux != nil, Count: small("count"),
		Start: small("start"), Aux: aux, Status: wire.Status(h.int("status", 1, 4)),
	}
	m.End = m.Start + small("len")
	return m
}

// announcement is of a block of what we registered for, or of all that is left, mostly.
func (h *hostile) announcement(r *wire.Register) *wire.Announce {
	total := h.cfg.Layout.TotalBlocks(int(r.PromptLen))
	i := h.int("slice", 0, total)
	m := &wire.Announce{
		Request: r.Request, Task: r.Task, Epoch: r.Epoch, Slot: 1, Nonce: 2, Slice: uint32(i), Start: uint32(min(i, total)),
		End: uint32(min(i+1, total)), Last: i+1 >= total || h.int("last", 0, 5) == 0, Blocks: [][]int32{nil},
	}
	if m.Last {
		m.End, m.Aux = uint32(total), &wire.Aux{First: wire.TokenLogprob{Token: int32(h.int("token", 0, 3))}}
	}
	for b := max(int(m.Start), int(r.DstStart)/4); b < int(m.End); b++ {
		m.Blocks[0] = append(m.Blocks[0], int32(b))
	}
	if h.int("spoilt", 0, 8) == 0 {
		m.Nonce, m.Slot = uint64(h.int("nonce", 0, 4)), uint32(h.int("slot", 0, 5))
	}
	return m
}

func (h *hostile) perform() {
	for outs := h.e.Outputs(); len(outs) > 0; outs = h.e.Outputs() {
		for _, o := range outs {
			h.output(o)
		}
	}
}

func (h *hostile) output(o Output) {
	switch o := o.(type) {
	case Compute:
		if h.pass != nil {
			h.t.Fatal("a second pass goes out")
		}
		h.pass = o.Batch
	case Read:
		h.reads[o.ID] = o
	case Copy:
		h.copies[o.ID] = o.Peer
	case ReadSlots:
		h.checks[o.ID] = o
	case transfer.Revoke:
		h.revokes = append(h.revokes, o.Epoch)
	case transfer.Notify:
		if r, ok := o.Msg.(*wire.Register); ok {
			h.posted = append(h.posted, r)
		}
	case Verify:
		h.verify = append(h.verify, o)
	case SetSlot:
		h.slots[o.Slot] = o.Value
	case Finish:
		if !h.open[o.Request] {
			h.t.Fatalf("%s has a second end: %+v", o.Request, o)
		}
		h.open[o.Request] = false
		if o.Handle != nil {
			h.handles = append(h.handles, o.Handle)
		}
	}
}

func (h *hostile) computed(fails bool) {
	ev := Computed{}
	if fails {
		ev.Err = errGPU
	}
	for _, w := range h.pass {
		if w.Sample != nil && !fails {
			ev.Results = append(ev.Results, Sampled{TokenLogprob: wire.TokenLogprob{Token: int32(h.int("token", 0, 3))}})
		}
	}
	h.pass = nil
	h.e.Step(h.now, ev)
}

func (h *hostile) copied(fails bool) {
	ids := slices.Sorted(maps.Keys(h.reads))
	ids = append(ids, slices.Sorted(maps.Keys(h.copies))...)
	h.copyEnds(pick(h.t, ids, "copy"), fails)
}

func (h *hostile) copyEnds(id uint64, fails bool) {
	delete(h.reads, id)
	delete(h.copies, id)
	ev := CopyDone{ID: id}
	if fails {
		ev.Err = errLine
	}
	h.e.Step(h.now, ev)
	h.perform()
}

func (h *hostile) slotsRead(fails bool) {
	h.checkEnds(pick(h.t, slices.Sorted(maps.Keys(h.checks)), "check"), fails)
}

func (h *hostile) checkEnds(id uint64, fails bool) {
	ev := SlotsRead{ID: id}
	for _, slot := range h.checks[id].Slots {
		value := int64(slot) + 1
		if h.int("lapsed", 0, 3) == 0 {
			value = 0
		}
		ev.Values = append(ev.Values, value)
	}
	delete(h.checks, id)
	if fails {
		ev.Values, ev.Err = nil, errLine
	}
	h.e.Step(h.now, ev)
	h.perform()
}

func (h *hostile) revoked() {
	epoch := h.revokes[0]
	h.revokes = h.revokes[1:]
	h.e.Step(h.now, EpochRevoked{Epoch: epoch})
}

func (h *hostile) verified() {
	v := h.verify[0]
	h.verify = h.verify[1:]
	h.e.Step(h.now, Verified{Epoch: v.Epoch, Slice: v.Slice, Writer: v.Writer, Sum: uint32(h.int("sum", 0, 1))})
}

// lost: what is in flight with a peer ends before its connection is said to be gone.
func (h *hostile) lost(peer wire.Life) {
	for _, id := range slices.Sorted(maps.Keys(h.reads)) {
		if h.reads[id].Peer == peer {
			h.copyEnds(id, true)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.copies)) {
		if h.copies[id] == peer {
			h.copyEnds(id, true)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.checks)) {
		if h.checks[id].Peer == peer {
			h.checkEnds(id, true)
		}
	}
	h.e.Step(h.now, PeerLost{Peer: peer, Err: errors.New("line broken")})
}

// drain lets everything end: clients and peers leave, what is out comes back, and time passes.
func (h *hostile) drain() {
	for i := range h.next {
		h.e.Step(h.now, Abort{ID: fmt.Sprint("r", i), Cause: transfer.ErrCancelled})
		h.perform()
	}
	for _, name := range hostilePeers {
		h.lost(life(name))
		h.perform()
	}
	for h.pass != nil || len(h.revokes) > 0 || len(h.verify) > 0 {
		switch {
		case h.pass != nil:
			h.computed(false)
		case len(h.revokes) > 0:
			h.revoked()
		default:
			h.verified()
		}
		h.perform()
	}
	for range 4 {
		h.now += 30e9
		h.e.Tick(h.now)
		h.perform()
	}
	want := Counts{Blocks: h.cfg.Blocks[0], Free: h.cfg.Blocks[0]}
	if c := h.e.Counts(); c != want || h.e.lend.slots.InUse() > 0 || len(h.e.pull.claims) > 0 || h.e.pull.renew.Len() > 0 {
		h.t.Fatalf("all is over: %+v, %d slots, %d claims, %d renewed; %+v", c, h.e.lend.slots.InUse(), len(h.e.pull.claims), h.e.pull.renew.Len(), h.e.Held())
	}
	for slot, nonce := range h.slots {
		if nonce != 0 {
			h.t.Fatalf("all is over, and slot %d holds %d", slot, nonce)
		}
	}
	for id, open := range h.open {
		if open {
			h.t.Fatalf("%s has no end", id)
		}
	}
}
