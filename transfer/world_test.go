package transfer

import (
	"errors"
	"fmt"
	"math"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/wire"
)

// world joins one Send and one Receive by a wire that reorders and repeats results, loses
// everything with the connection, and writes a copy block by block. It keeps the tokens in
// both memories, and checks every output against them. Released blocks are overwritten.
type world struct {
	t       *rapid.T
	layout  kvcache.Layout
	layers  int // of a group
	prompt  int
	fencing bool
	now     int64

	send   *Send
	recv   *Receive
	src    []memory
	dst    []memory
	tables []kvcache.BlockTable // of the sender

	cursor    int
	computing *kvcache.Chunk
	through   int // layers of the model that are written of it
	flights   []*flight
	acks      []int          // slices whose bytes landed and whose sender does not know yet
	toP       []wire.Message // in order
	toD       []wire.Message // in no order
	conn      connection
	drop      bool // the sender wants the connection closed

	revoking, revoked bool
	committed         bool
	sendEnd, recvEnd  string // the terminal output
	srcFree, dstFree  bool   // released
}

type connection uint8

const (
	connNone connection = iota
	connUp
	connLost
)

// flight is a copy on its way.
type flight struct {
	copy  Copy
	pairs []blockPair // not written yet
}

type blockPair struct {
	group    int
	src, dst kvcache.BlockID
}

var (
	lifeP, lifeD = life("P"), life("D")
	errLine      = errors.New("line broken")
	errRevoked   = errors.New("epoch revoked")
	errGPU       = errors.New("pass failed")
)

func newWorld(t *rapid.T) *world {
	var windows []int
	for range rapid.IntRange(1, 2).Draw(t, "groups") {
		windows = append(windows, rapid.SampledFrom([]int{0, 4, 7}).Draw(t, "window"))
	}
	w := &world{
		t: t, layers: rapid.IntRange(1, 3).Draw(t, "layers"),
		prompt: rapid.IntRange(1, 14).Draw(t, "prompt"), fencing: rapid.Bool().Draw(t, "fencing"),
	}
	w.layout = layered(layoutOf(rapid.IntRange(1, 4).Draw(t, "tpb"), windows...), w.layers)
	hash := wire.TokenHash(tokensOf(w.prompt))
	const timeout = 12
	w.send = NewSend(SendConfig{
		Request: "r", Layout: w.layout, PromptLen: w.prompt, TokenHash: hash,
		Pipelined: rapid.Bool().Draw(t, "pipelined"), PartBytes: rapid.SampledFrom([]int{0, 1, 1, 20}).Draw(t, "parts"), Timeout: timeout,
	}, 0)
	w.recv = NewReceive(ReceiveConfig{
		Request: "r", Task: 3, Epoch: 7, Layout: w.layout, PromptLen: w.prompt, TokenHash: hash,
		Tables: dstTables(w.layout, w.prompt, w.prompt+5), Writers: 1, Fencing: w.fencing, Timeout: timeout,
	}, 0)
	w.tables = srcTables(w.layout, w.prompt)
	for range windows {
		w.src, w.dst = append(w.src, memory{}), append(w.dst, memory{})
	}
	return w
}

// compute fills the blocks of the chunk that is out, and brings it back.
func (w *world) compute(err error) {
	c := *w.computing
	if err == nil {
		w.write(layersOf(w.layout))
	}
	w.computing = nil
	ev := ChunkComputed{Chunk: c, Tables: w.tables, Err: err}
	if c.Last && err == nil {
		ev.Aux = &wire.Aux{First: wire.TokenLogprob{Token: 42}}
	}
	w.cursor = c.End
	w.send.Step(w.now, ev)
}

// write fills the blocks of the chunk that is out up to a layer.
func (w *world) write(through int) {
	c, tpb := w.computing, w.layout.BlockTokens
	for g, group := range w.layout.Groups {
		for i, layer := range group.Layers {
			for pos := c.Start; pos < c.End && layer >= w.through && layer < through; pos++ {
				w.src[g].at(srcBlock(g, pos/tpb), w.layers*tpb)[i*tpb+pos%tpb] = pos
			}
		}
	}
	w.through = through
}

// tell writes some more layers, and says so.
func (w *world) tell() {
	w.write(rapid.IntRange(w.through, layersOf(w.layout)).Draw(w.t, "through"))
	w.send.Step(w.now, LayersComputed{Through: w.through})
}

// land writes a flight's next block. A receiver that fences refuses what it has revoked.
func (w *world) land(f *flight) {
	if w.fencing && w.revoked {
		w.remove(f)
		w.send.Step(w.now, Copied{Slice: f.copy.Slice, Err: errRevoked})
		return
	}
	if len(f.pairs) > 0 {
		p := f.pairs[0]
		f.pairs = f.pairs[1:]
		if w.srcFree || w.dstFree {
			w.t.Fatalf("a block is written; released are: sender's %v, receiver's %v", w.srcFree, w.dstFree)
		}
		tpb := w.layout.BlockTokens
		dst, src := w.dst[p.group].at(p.dst, w.layers*tpb), w.src[p.group].at(p.src, w.layers*tpb)
		for i, layer := range w.layout.Groups[p.group].Layers {
			if layer >= f.copy.Layers.Start && layer < f.copy.Layers.End {
				copy(dst[i*tpb:][:tpb], src[i*tpb:][:tpb])
			}
		}
		return
	}
	w.remove(f)
	if f.copy.Notice != nil {
		w.toD = append(w.toD, f.copy.Notice)
	}
	w.acks = append(w.acks, f.copy.Slice)
}

func (w *world) remove(f *flight) {
	for i := range w.flights {
		if w.flights[i] == f {
			w.flights = append(w.flights[:i], w.flights[i+1:]...)
			return
		}
	}
}

func (w *world) ack(i int) {
	slice := w.acks[i]
	w.acks = append(w.acks[:i], w.acks[i+1:]...)
	w.send.Step(w.now, Copied{Slice: slice})
}

// deliverToP brings the oldest message to the sender. One that has ended answers as its
// engine's tombstone would.
func (w *world) deliverToP() {
	m := w.toP[0]
	w.toP = w.toP[1:]
	switch m := m.(type) {
	case *wire.Register:
		if w.send.Ended() {
			w.toD = append(w.toD, Refusal(m, wire.StatusGone, errors.New("ended")))
			return
		}
		w.send.Step(w.now, Registered{Peer: lifeD, Msg: m, PoolBlocks: pools(w.layout)})
	case *wire.Withdraw:
		if !w.send.Ended() {
			w.send.Step(w.now, Withdrawn{Peer: lifeD, Msg: m})
		}
	}
}

func (w *world) deliverToD(i int, keep bool) {
	m := w.toD[i]
	if !keep {
		w.toD = append(w.toD[:i], w.toD[i+1:]...)
	}
	switch m := m.(type) {
	case *wire.Result:
		w.recv.Step(w.now, ResultCame{Peer: lifeP, Msg: m})
	case *wire.Progress:
		w.recv.Step(w.now, ProgressCame{Peer: lifeP, Msg: m})
	}
}

// lose breaks the connection: what is under way is lost, copies end, then both sides hear it.
func (w *world) lose() {
	w.conn, w.drop, w.toP, w.toD = connLost, false, nil, nil
	flights := w.flights
	w.flights = nil
	for _, f := range flights {
		w.send.Step(w.now, Copied{Slice: f.copy.Slice, Err: errLine})
		w.observe()
	}
	for len(w.acks) > 0 {
		w.ack(0)
		w.observe()
	}
	w.send.Step(w.now, PeerGone{Peer: lifeD, Err: errLine})
	w.recv.Step(w.now, PeerGone{Peer: lifeP, Err: errLine})
}

// tick lets the time pass to an instant.
func (w *world) tick(now int64) {
	w.now = now
	w.send.Tick(now)
	w.recv.Tick(now)
}

func (w *world) deadline() int64 { return min(w.send.Deadline(), w.recv.Deadline()) }

// over says that both sides have ended and nothing is under way.
func (w *world) over() bool {
	return w.send.Ended() && w.recv.Ended() && w.computing == nil && len(w.flights)+len(w.acks) == 0
}

func (w *world) String() string {
	deadline := w.deadline()
	if deadline == math.MaxInt64 {
		deadline = -1
	}
	return fmt.Sprintf("time %d, deadline %d: send %s (%q), receive %s (%q), computing %v, %d flights, %d acks, to P %d, to D %d, connection %d, revoking %v",
		w.now, deadline, w.send.Phase(), w.sendEnd, w.recv.Phase(), w.recvEnd, w.computing, len(w.flights), len(w.acks),
		len(w.toP), len(w.toD), w.conn, w.revoking)
}
