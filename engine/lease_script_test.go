package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"kvferry/kvcache"
	"kvferry/wire"
)

// leaseConfig reads what newScript says of leases.
func leaseConfig(t *testing.T, d *datadriven.TestData, cfg *Config) {
	cfg.Slots, cfg.LeaseDuration = arg(t, d, "slots", 0), int64(duration(t, d, "lease", 6*time.Second))
	cfg.VerifyLeases, cfg.Recompute = d.HasArg("verify"), d.HasArg("recompute")
	cfg.RecomputeThreshold, cfg.ReadOnly = arg(t, d, "threshold", 0), d.HasArg("read-only")
	cfg.TurnTTL = int64(duration(t, d, "turns", 0))
	cfg.Life = life(arg(t, d, "life", map[string]string{"prefill": "P", "decode": "D"}[arg(t, d, "role", "")]))
	drawn := uint64(0)
	cfg.Draw = func() uint64 { drawn++; return drawn }
}

// keep fills in what the shell does, so that a request of the same script can be given the handle.
func (s *script) keep(h *Handle) {
	kept := *h
	kept.Life, kept.Addr = s.cfg.Life, "self:1"
	s.handles[h.Request] = &kept
}

// handle reads: handle name=.. [request=a] [life=P] [addr=p:1] prompt=N [tokens=N] [blocks=(..)]
// [slot=0] [nonce=1] [expiry=DURATION] [before=NONCE] [before-life=D] [cached=N] [other=FROM] [no-hashes].
// blocks= is of every layer group, by default 10, 11, ... It is a turn if it has an expiry. other=
// says from which of its tokens on it is of another text.
func (s *script) handle(t *testing.T, d *datadriven.TestData) {
	n := arg(t, d, "prompt", 1)
	tokens := tokensOf(n)
	for i := arg(t, d, "other", n); i < n; i++ {
		tokens[i] += 100
	}
	h := &Handle{
		Life: life(arg(t, d, "life", "P")), Addr: arg(t, d, "addr", "p:1"), Request: arg(t, d, "request", "a"),
		Tokens: arg(t, d, "tokens", n), Slot: arg(t, d, "slot", 0), Nonce: arg(t, d, "nonce", uint64(1)),
		Cached: arg(t, d, "cached", 0), Turn: d.HasArg("expiry"), Expiry: int64(duration(t, d, "expiry", 0)),
	}
	if !d.HasArg("no-hashes") {
		h.Hashes = kvcache.Chain("", 4, tokens)
	}
	var blocks []int
	for b := range s.cfg.Layout.TotalBlocks(n) {
		blocks = append(blocks, 10+b)
	}
	for range arg(t, d, "groups", len(s.cfg.Layout.Groups)) {
		var list []kvcache.BlockID
		for _, b := range ints(t, d, "blocks", blocks...) {
			list = append(list, kvcache.BlockID(b))
		}
		h.Blocks = append(h.Blocks, list)
	}
	if n := arg(t, d, "before", uint64(0)); n > 0 {
		h.Before = TurnRef{life(arg(t, d, "before-life", "D")), n}
	}
	s.handles[arg(t, d, "name", h.Request)] = h
}

// leaseMessage reads: heartbeat [full] [base=N] version=N [joined=(..)] [left=(..)] |
// heartbeat-ack version=N [resync] [refused=(..)] [why=..] | complete id=.. nonce=N [attempt=N]
// [status=ok] | announce id=.. [task=0] [epoch=1] [slot=0] [nonce=1] slice=N [last] blocks=(FROM,TO)
// [ids=(..)] [token=1] | clock sent=DURATION [theirs=DURATION]. A lease is request/nonce/attempt.
func leaseMessage(t *testing.T, d *datadriven.TestData, id string) wire.Message {
	switch d.Cmd {
	case "heartbeat":
		return &wire.Heartbeat{
			Full: d.HasArg("full"), Base: arg(t, d, "base", uint64(0)), Version: arg(t, d, "version", uint64(1)),
			Joined: leases(t, d, "joined"), Left: leases(t, d, "left"),
		}
	case "heartbeat-ack":
		m := &wire.HeartbeatAck{Version: arg(t, d, "version", uint64(1)), Resync: d.HasArg("resync")}
		for _, l := range leases(t, d, "refused") {
			m.Refused = append(m.Refused, wire.LeaseRefusal{Lease: l, Reason: arg(t, d, "why", "expired")})
		}
		return m
	case "complete":
		m := &wire.Complete{Lease: wire.Lease{
			Request: id, Nonce: arg(t, d, "nonce", uint64(0)), Attempt: arg(t, d, "attempt", uint32(0)),
		}}
		for m.Status.String() != arg(t, d, "status", "ok") {
			m.Status++
			m.Reason = "it gave up"
		}
		return m
	case "announce":
		return announceOf(t, d, id)
	case "clock":
		return &wire.Clock{
			Sent: int64(duration(t, d, "sent", 0)), Answered: d.HasArg("theirs"), Now: int64(duration(t, d, "theirs", 0)),
		}
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return nil
}

func announceOf(t *testing.T, d *datadriven.TestData, id string) *wire.Announce {
	m := &wire.Announce{
		Request: id, Task: arg(t, d, "task", uint32(0)), Epoch: arg(t, d, "epoch", uint64(1)),
		Slot: arg(t, d, "slot", uint32(0)), Nonce: arg(t, d, "nonce", uint64(1)),
		Slice: arg(t, d, "slice", uint32(0)), Last: d.HasArg("last"),
	}
	span := ints(t, d, "blocks", 0, 0)
	m.Start, m.End = uint32(span[0]), uint32(span[1])
	var list []int32
	for _, b := range ints(t, d, "ids") {
		list = append(list, int32(b))
	}
	m.Blocks = [][]int32{list}
	if m.Last {
		m.Aux = &wire.Aux{First: wire.TokenLogprob{Token: arg(t, d, "token", int32(1))}}
	}
	return m
}

func leases(t *testing.T, d *datadriven.TestData, name string) (out []wire.Lease) {
	a, ok := d.Arg(name)
	if !ok {
		return nil
	}
	for _, v := range a.Vals {
		var l wire.Lease
		var at int
		for at = range v {
			if v[at] == '/' {
				break
			}
		}
		l.Request = v[:at]
		if _, err := fmt.Sscanf(v[at:], "/%d/%d", &l.Nonce, &l.Attempt); err != nil {
			d.Fatalf(t, "lease %s: %v", v, err)
		}
		out = append(out, l)
	}
	return out
}

func duration(t *testing.T, d *datadriven.TestData, name string, value time.Duration) time.Duration {
	var text string
	if !d.MaybeScanArgs(t, name, &text) {
		return value
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

func int64s(list []int) (out []int64) {
	for _, v := range list {
		out = append(out, int64(v))
	}
	return out
}
