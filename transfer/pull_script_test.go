package transfer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"

	"kvferry/kvcache"
	"kvferry/wire"
)

// pullScript is a Pull with the clock of its engine.
type pullScript struct {
	pull *Pull
	cfg  PullConfig
	now  int64
}

// newPullScript reads: new [prompt=10] [tokens=N] [tpb=4] [windows=(0,..)] [state=BYTES] [start=N]
// [unverified] [recompute] [silent] [lease=NONCE], and either announced or what a handle says:
// [slot=5] [nonce=9] [block=N] [groups=N] [end=BLOCKS] [lacks=N], the last being how many of
// group 0's first blocks it leaves out. mine=N leaves out as many of ours.
func newPullScript(t *testing.T, d *datadriven.TestData) *pullScript {
	l := scriptLayout(t, d)
	prompt := arg(t, d, "prompt", 10)
	p := &pullScript{}
	p.cfg = PullConfig{
		Request: "r", Layout: l, Tokens: prompt - 1, DstStart: arg(t, d, "start", 0),
		Lease: wire.Lease{Request: "h", Nonce: arg(t, d, "lease", uint64(0)), Attempt: 2}, Silent: d.HasArg("silent"),
		Verify: !d.HasArg("unverified"), Recompute: d.HasArg("recompute"), Timeout: duration(t, d, "12s"),
	}
	if d.HasArg("announced") {
		p.cfg.Tokens = prompt
		p.cfg.Task, p.cfg.Epoch, p.cfg.PromptLen, p.cfg.TokenHash = 3, 7, prompt, wire.TokenHash(tokensOf(prompt))
	} else {
		p.cfg.Source = source(t, d, l, prompt)
		p.cfg.Lease.Nonce = arg(t, d, "lease", p.cfg.Source.Nonce)
	}
	p.cfg.Tokens = arg(t, d, "tokens", p.cfg.Tokens)
	p.cfg.Tables = dstTables(l, p.cfg.Tokens, prompt+5)
	for range arg(t, d, "mine", 0) {
		p.cfg.Tables[0] = kvcache.BlockTable{First: p.cfg.Tables[0].First + 1, Blocks: p.cfg.Tables[0].Blocks[1:]}
	}
	p.pull = NewPull(p.cfg, p.now)
	return p
}

func source(t *testing.T, d *datadriven.TestData, l kvcache.Layout, prompt int) *Source {
	src := &Source{
		End: arg(t, d, "end", l.TotalBlocks(prompt)), Slot: arg(t, d, "slot", 5), Nonce: arg(t, d, "nonce", uint64(9)),
	}
	for _, table := range srcTables(l, prompt) {
		src.Blocks = append(src.Blocks, table.Blocks)
	}
	src.Blocks[0] = src.Blocks[0][arg(t, d, "lacks", 0):]
	if d.HasArg("block") {
		src.Blocks[0][0] = kvcache.BlockID(arg(t, d, "block", 0))
	}
	src.Blocks = src.Blocks[:arg(t, d, "groups", len(src.Blocks))]
	return src
}

func (p *pullScript) run(t *testing.T, d *datadriven.TestData) {
	clock(t, d, &p.now)
	peer := life(arg(t, d, "peer", "P"))
	switch d.Cmd {
	case "ready": // ready [slots=8] [pools=N] [from=(TENSOR,PIPELINE)] [to=(TENSOR,PIPELINE)]
		p.pull.Step(p.now, p.ready(t, d, peer))
	case "unreachable":
		p.pull.Step(p.now, Unreachable{Err: errOf("connection refused")})
	case "announce":
		p.pull.Step(p.now, Announced{Peer: peer, Msg: p.announcement(t, d)})
	case "read": // read [slice=0] [writer=0] [err=..]
		p.pull.Step(p.now, ReadDone{Slice: arg(t, d, "slice", 0), Writer: arg(t, d, "writer", 0), Err: errOf(arg(t, d, "err", ""))})
	case "slot": // slot [writer=0] [value=9] [err=..]
		p.pull.Step(p.now, SlotRead{Writer: arg(t, d, "writer", 0), Value: arg(t, d, "value", int64(9)), Err: errOf(arg(t, d, "err", ""))})
	case "lease-refused":
		p.pull.Step(p.now, LeaseRefused{Reason: "consumed"})
	case "result":
		p.pull.Step(p.now, ResultCame{Peer: peer, Msg: result(t, d)})
	case "progress":
		p.pull.Step(p.now, ProgressCame{Peer: peer, Msg: &wire.Progress{Request: arg(t, d, "request", "r"), Task: 3, Epoch: arg(t, d, "epoch", uint64(7))}})
	case "peer-gone":
		p.pull.Step(p.now, PeerGone{Peer: peer, Err: errOf("reset")})
	case "cancel":
		p.pull.Step(p.now, Cancel{Cause: causeOf(arg(t, d, "cause", "cancelled"))})
	case "tick":
		p.pull.Tick(p.now)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

func (p *pullScript) ready(t *testing.T, d *datadriven.TestData, peer wire.Life) PullReady {
	poolBlocks := pools(p.cfg.Layout)
	ev := PullReady{Peer: peer, PoolBlocks: poolBlocks[:arg(t, d, "pools", len(poolBlocks))], Slots: arg(t, d, "slots", 8)}
	if d.HasArg("from") || d.HasArg("to") {
		var err error
		if ev.Ranks, err = NewMapping(p.cfg.Layout, parallel(t, d, "from"), parallel(t, d, "to")); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	return ev
}

// announcement reads: announce [slice=0] blocks=(FROM,TO) [aux=TOKEN], which makes it the last;
// [last] is one without. A line changes: slot= nonce= epoch= request= peer= groups= block= extra.
func (p *pullScript) announcement(t *testing.T, d *datadriven.TestData) *wire.Announce {
	m := &wire.Announce{
		Request: arg(t, d, "request", "r"), Task: 3, Epoch: arg(t, d, "epoch", uint64(7)), Slot: arg(t, d, "slot", uint32(5)),
		Nonce: arg(t, d, "nonce", uint64(9)), Slice: arg(t, d, "slice", uint32(0)), Last: d.HasArg("last") || d.HasArg("aux"),
	}
	a, _ := d.Arg("blocks")
	a.Scan(t, 0, &m.Start)
	a.Scan(t, 1, &m.End)
	if d.HasArg("aux") {
		m.Aux = &wire.Aux{First: wire.TokenLogprob{Token: arg(t, d, "aux", int32(0))}}
	}
	dst := Destination{Start: p.cfg.DstStart}
	for g := range p.cfg.Layout.Groups {
		dst.Blocks = append(dst.Blocks, p.pull.wanted(g, p.cfg.Tables[g]))
		due := dst.due(p.cfg.Layout, p.cfg.Tokens, g, kvcache.Span{Start: int(m.Start), End: int(m.End)})
		list := []int32{}
		for b := due.Start; b < due.End; b++ {
			list = append(list, int32(srcBlock(g, b)))
		}
		m.Blocks = append(m.Blocks, list)
	}
	if d.HasArg("block") {
		m.Blocks[0][0] = arg(t, d, "block", int32(0))
	}
	if d.HasArg("extra") {
		m.Blocks[0] = append(m.Blocks[0], 0)
	}
	m.Blocks = m.Blocks[:arg(t, d, "groups", len(m.Blocks))]
	return m
}

func (p *pullScript) show() string {
	out := showOutputs(p.pull.Outputs()) + "= " + p.pull.Phase()
	var v *VerifyError
	if errors.As(p.pull.Err(), &v) {
		out += fmt.Sprintf(" (%s)", v.Reason)
	}
	return out + fmt.Sprintf(", %s\n", showDeadline(p.pull.Deadline()))
}
