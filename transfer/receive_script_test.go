package transfer

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"

	"kvferry/wire"
)

// receiveScript is a Receive with the clock of its engine.
type receiveScript struct {
	recv *Receive
	now  int64
}

// newReceiveScript reads: new prompt=N [tpb=4] [windows=(0,..)] [state=BYTES] [tokens=N]
// [writers=1] [start=N] [no-fencing] [checksum]
func newReceiveScript(t *testing.T, d *datadriven.TestData) *receiveScript {
	l := scriptLayout(t, d)
	prompt := arg(t, d, "prompt", 10)
	r := &receiveScript{}
	r.recv = NewReceive(ReceiveConfig{
		Request: "r", Task: 3, Epoch: 7, Layout: l, PromptLen: prompt, TokenHash: wire.TokenHash(tokensOf(prompt)),
		DstStart: arg(t, d, "start", 0), Tables: dstTables(l, prompt, arg(t, d, "tokens", prompt)),
		Writers: arg(t, d, "writers", 1), Checksum: d.HasArg("checksum"),
		Fencing: !d.HasArg("no-fencing"), Timeout: duration(t, d, "12s"),
	}, r.now)
	return r
}

func (r *receiveScript) run(t *testing.T, d *datadriven.TestData) {
	clock(t, d, &r.now)
	peer := life(arg(t, d, "peer", "P"))
	switch d.Cmd {
	case "peer-up":
		r.recv.Step(r.now, PeerUp{Peer: peer})
	case "unreachable":
		r.recv.Step(r.now, Unreachable{Err: errOf("connection refused")})
	case "result":
		r.recv.Step(r.now, ResultCame{Peer: peer, Msg: result(t, d)})
	case "progress":
		r.recv.Step(r.now, ProgressCame{Peer: peer, Msg: &wire.Progress{Request: arg(t, d, "request", "r"), Task: 3, Epoch: arg(t, d, "epoch", uint64(7))}})
	case "peer-gone":
		r.recv.Step(r.now, PeerGone{Peer: peer, Err: errOf("reset")})
	case "cancel":
		r.recv.Step(r.now, Cancel{Cause: causeOf(arg(t, d, "cause", "cancelled"))})
	case "verified": // verified slice=N [writer=N] sum=N
		r.recv.Step(r.now, Verified{
			Slice: arg(t, d, "slice", 0), Writer: arg(t, d, "writer", 0), Sum: arg(t, d, "sum", uint32(0)),
		})
	case "revoked":
		r.recv.Step(r.now, Revoked{})
	case "tick":
		r.recv.Tick(r.now)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

// result reads: result slice=N [last=COUNT] [aux=TOKEN] [writer=N] [epoch=N] [peer=P]
// [request=R] [blocks=(FROM,TO)] [bytes=32] [sum=N], or
// result status=failed|cancelled|refused|gone [drained]
func result(t *testing.T, d *datadriven.TestData) *wire.Result {
	m := &wire.Result{
		Request: arg(t, d, "request", "r"), Task: 3, Epoch: arg(t, d, "epoch", uint64(7)), Writer: uint16(arg(t, d, "writer", 0)),
		Slice: arg(t, d, "slice", uint32(0)), Last: d.HasArg("last") || d.HasArg("drained"),
		Count: arg(t, d, "last", uint32(0)), Status: status(t, d),
		Bytes: arg(t, d, "bytes", uint64(32)), Checksum: arg(t, d, "sum", uint32(0)),
	}
	if a, ok := d.Arg("blocks"); ok {
		a.Scan(t, 0, &m.Start)
		a.Scan(t, 1, &m.End)
	}
	if d.HasArg("aux") {
		m.Aux = &wire.Aux{First: wire.TokenLogprob{Token: arg(t, d, "aux", int32(0))}}
	}
	if m.Status != wire.StatusOK {
		m.Reason, m.Bytes = "it broke", 0
	}
	return m
}

func (r *receiveScript) show() string {
	out := showOutputs(r.recv.Outputs())
	end := ""
	if r.recv.Ended() {
		end = "ended, "
	}
	return out + fmt.Sprintf("= %s%s\n", end, showDeadline(r.recv.Deadline()))
}
