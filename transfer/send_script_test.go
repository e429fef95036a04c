package transfer

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"

	"kvferry/kvcache"
	"kvferry/wire"
)

// sendScript is a Send and what its engine would know of it.
type sendScript struct {
	send   *Send
	cfg    SendConfig
	tables []kvcache.BlockTable
	cursor int // prompt tokens computed
	first  bool
	now    int64
}

// newSendScript reads: new prompt=N [tpb=4] [windows=(0,..)] [state=BYTES] [monolithic] [hit=N]
// [layers=N] [parts=BYTES]
func newSendScript(t *testing.T, d *datadriven.TestData) *sendScript {
	s := &sendScript{first: true, cursor: arg(t, d, "hit", 0)}
	prompt := arg(t, d, "prompt", 16)
	s.cfg = SendConfig{
		Request: "r", Layout: scriptLayout(t, d), PromptLen: prompt,
		TokenHash: wire.TokenHash(tokensOf(prompt)), Pipelined: !d.HasArg("monolithic"), PartBytes: arg(t, d, "parts", 0), Timeout: duration(t, d, "12s"),
	}
	s.tables = srcTables(s.cfg.Layout, prompt)
	s.send = NewSend(s.cfg, s.now)
	return s
}

func (s *sendScript) run(t *testing.T, d *datadriven.TestData) {
	clock(t, d, &s.now)
	switch d.Cmd {
	case "start": // a pass over the next chunk goes out: start [to=N]
		s.send.Step(s.now, s.started(t, d))
	case "layers": // and tells of layers: layers through=N
		s.send.Step(s.now, LayersComputed{Through: arg(t, d, "through", 0)})
	case "computed": // and comes back: computed to=N [err=..]
		s.computed(t, d)
	case "chunk": // both at once
		s.send.Step(s.now, s.started(t, d))
		s.computed(t, d)
	case "preempt": // the cursor moves back: preempt to=N
		s.cursor, s.first = arg(t, d, "to", 0), true
	case "taken-back": // the blocks go to others, and the cursor back: taken-back to=N
		s.cursor, s.first = arg(t, d, "to", 0), true
		s.send.Step(s.now, TakenBack{})
	case "register":
		s.send.Step(s.now, s.registration(t, d))
	case "copied": // copied slice=N [writer=N] [err=..]
		s.send.Step(s.now, Copied{
			Slice: arg(t, d, "slice", 0), Writer: arg(t, d, "writer", 0), Err: errOf(arg(t, d, "err", "")),
		})
	case "slotted": // slotted slot=N nonce=N
		s.send.Step(s.now, Slotted{Slot: arg(t, d, "slot", uint32(5)), Nonce: arg(t, d, "nonce", uint64(0))})
	case "claimed": // claimed until=DURATION
		s.send.Step(s.now, Claimed{Until: duration(t, d, arg(t, d, "until", ""))})
	case "completed": // completed [status=ok]
		s.send.Step(s.now, completed(t, d))
	case "expired":
		s.send.Step(s.now, Expired{})
	case "withdraw":
		s.send.Step(s.now, Withdrawn{
			Peer: life(arg(t, d, "peer", "D")),
			Msg:  &wire.Withdraw{Request: "r", Epoch: arg(t, d, "epoch", uint64(7)), Reason: "it left"},
		})
	case "peer-gone":
		s.send.Step(s.now, PeerGone{Peer: life(arg(t, d, "peer", "D")), Err: errOf("reset")})
	case "cancel":
		s.send.Step(s.now, Cancel{Cause: causeOf(arg(t, d, "cause", "cancelled"))})
	case "tick":
		s.send.Tick(s.now)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

func (s *sendScript) chunk(t *testing.T, d *datadriven.TestData) kvcache.Chunk {
	c := kvcache.Chunk{Start: s.cursor, End: arg(t, d, "to", 0), First: s.first}
	c.Last = c.End == s.cfg.PromptLen
	return c
}

func (s *sendScript) started(t *testing.T, d *datadriven.TestData) ChunkStarted {
	return ChunkStarted{Chunk: s.chunk(t, d), Tables: s.tables}
}

func (s *sendScript) computed(t *testing.T, d *datadriven.TestData) {
	c := s.chunk(t, d)
	ev := ChunkComputed{Chunk: c, Tables: s.tables, Err: errOf(arg(t, d, "err", ""))}
	if c.Last {
		ev.Aux = &wire.Aux{First: wire.TokenLogprob{Token: 42}}
	}
	s.cursor, s.first = c.End, false
	s.send.Step(s.now, ev)
}

// registration is a receiver's that fits, but for what a line changes: peer= epoch= task=
// prompt= start= hash= groups= extra= block= pools= checksum; read, with slot= and nonce= or
// no-slot. from=(TENSOR,PIPELINE) and
// to=(TENSOR,PIPELINE) are the ranks of either side.
func (s *sendScript) registration(t *testing.T, d *datadriven.TestData) Registered {
	l := s.cfg.Layout
	m := &wire.Register{
		Request: "r", Task: arg(t, d, "task", uint32(3)), Epoch: arg(t, d, "epoch", uint64(7)),
		PromptLen: arg(t, d, "prompt", uint32(s.cfg.PromptLen)), TokenHash: s.cfg.TokenHash,
		DstStart: arg(t, d, "start", uint32(0)), Blocks: dstLists(l, s.cfg.PromptLen), Checksum: d.HasArg("checksum"),
	}
	if d.HasArg("hash") {
		m.TokenHash[0]++
	}
	m.Blocks = m.Blocks[:arg(t, d, "groups", len(m.Blocks))]
	for range arg(t, d, "extra", 0) {
		m.Blocks[0] = append(m.Blocks[0], 0)
	}
	if d.HasArg("block") {
		m.Blocks[0][0] = arg(t, d, "block", int32(0))
	}
	poolBlocks := pools(l)
	poolBlocks = poolBlocks[:arg(t, d, "pools", len(poolBlocks))]
	ev := Registered{Peer: life(arg(t, d, "peer", "D")), Msg: m, PoolBlocks: poolBlocks}
	if m.Read = d.HasArg("read"); m.Read {
		ev.HasSlot, ev.Slot, ev.Nonce = !d.HasArg("no-slot"), arg(t, d, "slot", uint32(5)), arg(t, d, "nonce", uint64(9))
	}
	if d.HasArg("from") || d.HasArg("to") {
		var err error
		if ev.Ranks, err = NewMapping(l, parallel(t, d, "from"), parallel(t, d, "to")); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	return ev
}

// parallel reads name=(TENSOR,PIPELINE); one rank if a line says nothing.
func parallel(t *testing.T, d *datadriven.TestData, name string) kvcache.Parallel {
	p := kvcache.Parallel{Tensor: 1, Pipeline: 1}
	if a, ok := d.Arg(name); ok {
		a.Scan(t, 0, &p.Tensor)
		a.Scan(t, 1, &p.Pipeline)
	}
	return p
}

func (s *sendScript) show() string {
	out := showOutputs(s.send.Outputs())
	end := ""
	if s.send.Ended() {
		end = ", ended"
	}
	return out + fmt.Sprintf("= %s%s, %s\n", s.send.Status().name(), end, showDeadline(s.send.Deadline()))
}
