package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// TestEngine runs the scripts of testdata. A line is an event; what follows it is what the
// engine then puts out, and what it holds. A script decides the tokens that are drawn. Time
// goes on only by at=.
func TestEngine(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "engine" {
				s = newScript(t, d)
			} else {
				s.line(t, d)
			}
			return s.show()
		})
	})
}

type script struct {
	e       *Engine
	cfg     Config
	now     int64
	out     []Work             // the pass that is out
	handles map[string]*Handle // that requests of this script's engines ended with, by request
}

// newScript reads: engine role=.. [windows=(0,..)] [state=BYTES] [blocks=(N,..)] [grow] [reuse]
// [seqs=4] [waiting=8] [chunk=N] [monolithic] [context=64] [no-fencing] [checksum]. A block holds
// 4 tokens. Without chunk= prompts are not cut. state= adds a recurrent group. For leases: [slots=N]
// [lease=6s] [verify] [recompute] [threshold=N] [turns=DURATION] [read-only]; nonces are 1, 2, 3..,
// and our life is named by life=, or by the role's first letter.
func newScript(t *testing.T, d *datadriven.TestData) *script {
	windows := ints(t, d, "windows", 0)
	cfg := Config{
		Layout:  layoutOf(4, windows...),
		Blocks:  ints(t, d, "blocks", 16),
		MaxSeqs: arg(t, d, "seqs", 4), MaxWaiting: arg(t, d, "waiting", 8),
		Chunked: d.HasArg("chunk"), ChunkTokens: arg(t, d, "chunk", 0),
		Pipelined: d.HasArg("chunk") && !d.HasArg("monolithic"),
		Timeout:   int64(12 * time.Second), Context: arg(t, d, "context", 64),
		Ends: []int32{0, 26}, Text: letter, Fencing: !d.HasArg("no-fencing"), Checksum: d.HasArg("checksum"),
		Grow: d.HasArg("grow"), Reuse: d.HasArg("reuse"),
	}
	leaseConfig(t, d, &cfg)
	if d.HasArg("state") {
		cfg.Layout.Groups = append(cfg.Layout.Groups, kvcache.LayerGroup{Layers: []int{len(windows)}, StateBytes: arg(t, d, "state", 0)})
	}
	for cfg.Role.String() != arg(t, d, "role", "aggregated") {
		cfg.Role++
	}
	e, err := New(cfg)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return &script{e: e, cfg: cfg, handles: map[string]*Handle{}}
}

// letter is a token's text: 1 is a, 26 is z. Tokens 0 and 26 end an answer; 0 has no text.
func letter(token int32) []byte {
	if token == 0 {
		return nil
	}
	return []byte{'a' + byte(token) - 1}
}

func (s *script) line(t *testing.T, d *datadriven.TestData) {
	var at string
	if d.MaybeScanArgs(t, "at", &at) {
		v, err := time.ParseDuration(at)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.now = int64(v)
	}
	switch d.Cmd {
	case "tick":
		s.e.Tick(s.now)
		return
	case "handle":
		s.handle(t, d)
		return
	}
	s.e.Step(s.now, s.event(t, d))
}

func (s *script) event(t *testing.T, d *datadriven.TestData) Event {
	peer := life(arg(t, d, "peer", map[Role]string{Prefill: "D", Decode: "P"}[s.cfg.Role]))
	cause := causeOf(arg(t, d, "err", ""))
	switch d.Cmd {
	case "submit":
		return Submit{s.request(t, d)}
	case "abort": // abort id=..
		return Abort{ID: arg(t, d, "id", ""), Cause: fmt.Errorf("%w: the client left", transfer.ErrCancelled)}
	case "computed": // computed [tokens=(..)] [err=..]: every sample is token 1 unless told
		return s.computed(ints(t, d, "tokens"), cause)
	case "peer-up": // peer-up [addr=..] [peer=..] [slots=8] [lease=6s] [pool=(N,..)]
		return PeerUp{
			Addr: arg(t, d, "addr", ""), Peer: peer, PoolBlocks: ints(t, d, "pool", s.cfg.Blocks...),
			Slots: arg(t, d, "slots", 8), LeaseDuration: int64(duration(t, d, "lease", 6*time.Second)),
		}
	case "connect-failed":
		return ConnectFailed{Addr: arg(t, d, "addr", ""), Err: cause}
	case "peer-lost":
		return PeerLost{Peer: peer, Err: cause}
	case "copied": // copied copy=N [err=..]
		id := arg(t, d, "copy", uint64(0))
		if _, out := s.e.copies[id]; !out {
			d.Fatalf(t, "copy %d is not out", id)
		}
		return CopyDone{ID: id, Err: cause}
	case "slots-read": // slots-read read=N [values=(..)] [err=..]
		return SlotsRead{ID: arg(t, d, "read", uint64(0)), Values: int64s(ints(t, d, "values")), Err: cause}
	case "forget": // forget id=.. nonce=N
		return Forget{Request: arg(t, d, "id", ""), Nonce: arg(t, d, "nonce", uint64(0))}
	case "verified": // verified [epoch=1] [slice=0] [sum=N]
		return Verified{Epoch: arg(t, d, "epoch", uint64(1)), Slice: arg(t, d, "slice", 0), Sum: arg(t, d, "sum", uint32(0))}
	case "revoked": // revoked epoch=N
		return EpochRevoked{Epoch: arg(t, d, "epoch", uint64(0))}
	}
	return Message{Peer: peer, Msg: s.message(t, d)}
}

// request reads: submit id=.. [leg=prefill|decode] prompt=N [max=3] [from=ADDR] [stop=(..)]
// [ignore-eos] [hold] [attempt=N] [pull=NAME]
// where NAME is a handle's.
func (s *script) request(t *testing.T, d *datadriven.TestData) Request {
	r := Request{
		ID: arg(t, d, "id", "a"), Peer: arg(t, d, "from", ""), Tokens: tokensOf(arg(t, d, "prompt", 1)),
		MaxTokens: arg(t, d, "max", 3), IgnoreEOS: d.HasArg("ignore-eos"), Logprobs: -1,
	}
	r.Hold, r.Attempt = d.HasArg("hold"), arg(t, d, "attempt", uint32(0))
	if name := arg(t, d, "pull", ""); name != "" {
		if r.Pull = s.handles[name]; r.Pull == nil {
			d.Fatalf(t, "no handle %s", name)
		}
	}
	if a, ok := d.Arg("stop"); ok {
		r.Stop = a.Vals
	}
	switch arg(t, d, "leg", "whole") {
	case "prefill":
		r.Leg = PrefillLeg
	case "decode":
		r.Leg = DecodeLeg
	}
	return r
}

func (s *script) computed(tokens []int, err error) Computed {
	ev := Computed{Err: err}
	for _, w := range s.out {
		if w.Sample == nil || err != nil {
			continue
		}
		drawn := Sampled{TokenLogprob: wire.TokenLogprob{Token: 1}}
		if len(tokens) > 0 {
			drawn.Token, tokens = int32(tokens[0]), tokens[1:]
		}
		ev.Results = append(ev.Results, drawn)
	}
	s.out = nil
	return ev
}

// message reads what leaseMessage does, and: register id=.. prompt=N [epoch=7] [task=3] [read]
// | withdraw id=.. [epoch=7] | progress [task=0] [epoch=1]
// | result [task=0] [epoch=1] [slice=0] [last=COUNT] [token=N] [cached=N] [blocks=(FROM,TO)]
// [sum=N] [status=..] [drained]
func (s *script) message(t *testing.T, d *datadriven.TestData) wire.Message {
	id := arg(t, d, "id", "a")
	switch d.Cmd {
	case "register":
		n := arg(t, d, "prompt", 1)
		m := &wire.Register{
			Request: id, Task: arg(t, d, "task", uint32(3)), Epoch: arg(t, d, "epoch", uint64(7)),
			PromptLen: uint32(n), TokenHash: wire.TokenHash(tokensOf(n)), Read: d.HasArg("read"),
		}
		for _, g := range s.cfg.Layout.Groups {
			var list []int32
			first, end := kvcache.StaleEnd(n, g.Window, 4), s.cfg.Layout.TotalBlocks(n)
			if g.Recurrent() {
				first, end = 0, 1
			}
			for b := first; b < end; b++ {
				list = append(list, int32(b))
			}
			m.Blocks = append(m.Blocks, list)
		}
		return m
	case "withdraw":
		return &wire.Withdraw{Request: id, Epoch: arg(t, d, "epoch", uint64(7)), Reason: "it left"}
	case "progress":
		return &wire.Progress{Request: id, Task: arg(t, d, "task", uint32(0)), Epoch: arg(t, d, "epoch", uint64(1))}
	case "result":
		return resultOf(t, d, id)
	}
	return leaseMessage(t, d, id)
}

func resultOf(t *testing.T, d *datadriven.TestData, id string) *wire.Result {
	m := &wire.Result{
		Request: id, Task: arg(t, d, "task", uint32(0)), Epoch: arg(t, d, "epoch", uint64(1)),
		Slice: arg(t, d, "slice", uint32(0)), Last: d.HasArg("last") || d.HasArg("drained"),
		Count: arg(t, d, "last", uint32(0)), Status: wire.StatusOK, Bytes: 16,
		Checksum: arg(t, d, "sum", uint32(0)),
	}
	if a, ok := d.Arg("blocks"); ok {
		a.Scan(t, 0, &m.Start)
		a.Scan(t, 1, &m.End)
	}
	if d.HasArg("last") {
		m.Aux = &wire.Aux{First: wire.TokenLogprob{Token: arg(t, d, "token", int32(1))}, Cached: arg(t, d, "cached", uint32(0))}
	}
	for m.Status.String() != arg(t, d, "status", "ok") {
		m.Status++
		m.Reason = "it broke"
	}
	return m
}

// arg reads an argument, or leaves the default.
func arg[T any](t *testing.T, d *datadriven.TestData, name string, value T) T {
	d.MaybeScanArgs(t, name, &value)
	return value
}

func ints(t *testing.T, d *datadriven.TestData, name string, value ...int) []int {
	a, ok := d.Arg(name)
	if !ok {
		return value
	}
	list := make([]int, len(a.Vals))
	for i := range list {
		a.Scan(t, i, &list[i])
	}
	return list
}

func causeOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
