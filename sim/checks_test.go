package sim

import (
	"strings"
	"testing"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// quietPlan is a cluster of one prefill and one decode engine, and two requests.
func quietPlan(t *testing.T) Plan {
	t.Helper()
	p, err := Parse(`cluster prefill=1 decode=1 tpb=4 windows=0,6 layers=1 heads=1 pblocks=20 dblocks=20 seqs=4 queue=8 chunk=4
cluster pipelined=yes fencing=yes timeout=100ms dead=50ms latency=1ms lanes=1 block=1ms pass=2ms
request prompt=12 max=4 ignore-eos=yes on=p0,d0
request at=1ms prompt=9 max=4 ignore-eos=yes on=p0,d0`)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Each checker sees what it is there for: the run is sabotaged in its middle, and the rule
// must be found broken.
func TestCheckersSee(t *testing.T) {
	on := func(w *world, name string) *proc { return w.nodeNamed(name).proc }
	held := func(p *proc) engine.Held { return p.eng.Held()[0] }
	for _, c := range []struct {
		rule, name string
		at         int64
		sabotage   func(w *world)
	}{
		{"", "nothing", 5e6, func(*world) {}},
		{"right bytes", "a byte flips on its way to decode", 9e6, func(w *world) {
			p := on(w, "d0")
			p.mem.block(0, 0, held(p).Tables[0].Blocks[0])[3] ^= 1
		}},
		{"right bytes", "a byte flips between chunks", 5e6, func(w *world) {
			p := on(w, "p0")
			p.mem.block(0, 0, held(p).Tables[0].Blocks[0])[3] ^= 1
		}},
		{"no touch after release", "a block is released in use", 5e6, func(w *world) {
			p := on(w, "p0")
			p.mem.slot(0, held(p).Tables[0].Blocks[0]).holders[0].uses++
		}},
		{"no touch after release", "a block is read by one that lost it", 4e6, func(w *world) {
			var again func()
			again = func() {
				for b := range on(w, "p0").mem.groups[0].slots {
					on(w, "p0").mem.groups[0].slots[b].turn++
				}
				w.after(1e5, again)
			}
			again()
		}},
		{"no touch after release", "a block lands that is not the receive's", 5e6, func(w *world) {
			for _, epoch := range []uint64{1, 2} {
				on(w, "d0").owners[epoch]++
			}
		}},
		{"one owner", "two requests share a block, and their tokens differ", 5e6, func(w *world) {
			p := on(w, "p0")
			s := p.mem.slot(0, held(p).Tables[0].Blocks[0])
			s.holders = append(s.holders, holder{request: 1, seen: p.mem.audits + 1})
		}},
		{"one owner", "a request holds a block twice", 5e6, func(w *world) {
			p := on(w, "p0")
			p.mem.slot(0, held(p).Tables[0].Blocks[0]).holders[0].seen = p.mem.audits + 1
		}},
		{"one owner", "a block that nobody owns is granted", 5e6, func(w *world) {
			on(w, "d0").grant(transfer.Grant{Epoch: 50, Blocks: [][]kvcache.BlockID{{19}, nil}})
		}},
		{"one owner", "an epoch is granted twice", 5e6, func(w *world) {
			p := on(w, "d0")
			p.grant(transfer.Grant{Epoch: 1, Blocks: [][]kvcache.BlockID{held(p).Tables[0].Blocks, nil}})
		}},
		{"no leak", "an epoch stays open", 5e6, func(w *world) {
			p := on(w, "d0")
			p.grants = append(p.grants, &grant{epoch: 99, blocks: make([][]kvcache.BlockID, 2)})
		}},
		{"no leak", "a lease slot stays", 5e6, func(w *world) {
			on(w, "p0").slots = []int64{7}
		}},
		{"no leak", "a read never ends", 5e6, func(w *world) {
			on(w, "d0").reading = []*fetch{{}}
		}},
		{"protocol", "a lease slot is given anew", 5e6, func(w *world) {
			on(w, "p0").slots = []int64{7}
			on(w, "p0").setSlots([]engine.Output{engine.SetSlot{Value: 8}})
		}},
		{"renewed", "a lease expires that was renewed", 5e6, func(w *world) {
			on(w, "p0").sets[on(w, "d0").life] = &leased{members: map[int]bool{0: true}, until: never}
			on(w, "p0").noted(engine.Noted{What: engine.LeaseExpired, Request: "r1"})
		}},
		{"renewed", "a lease expires whose reader lives", 5e6, func(w *world) {
			on(w, "p0").sets[on(w, "d0").life] = &leased{members: map[int]bool{0: true}}
			on(w, "p0").noted(engine.Noted{What: engine.LeaseExpired, Request: "r1"})
		}},
		{"no touch after release", "a pass uses what is being read into", 5e6, func(w *world) {
			p := on(w, "p0")
			p.mem.slot(0, held(p).Tables[0].Blocks[0]).holders[0].reads++
		}},
		{"one answer", "an engine ends a request twice", 5e6, func(w *world) {
			w.finishOut(on(w, "p0"), engine.Finish{Request: "r1"})
		}},
		{"one answer", "an engine never ends a request", 5e6, func(w *world) {
			on(w, "p0").submitted[0]++
		}},
		{"right tokens", "a wrong token is streamed", 5e6, func(w *world) {
			w.tokenOut(on(w, "d0"), engine.Token{Request: "r1", Sampled: engine.Sampled{TokenLogprob: wire.TokenLogprob{Token: -1}}})
		}},
		{"right tokens", "an answer is cut short", 5e6, func(w *world) {
			w.finishOut(on(w, "d0"), engine.Finish{Request: "r1", Reason: engine.FinishStop})
		}},
		{"right tokens", "a token is computed that nobody drew", 5e6, func(w *world) {
			on(w, "d0").compute(engine.Compute{Batch: []engine.Work{{Request: "r1", Tokens: []int32{-1}, Start: 3}}})
		}},
		{"protocol", "two passes at a time", 5e6, func(w *world) {
			on(w, "p0").compute(engine.Compute{})
		}},
		{"protocol", "an epoch is revoked twice", 5e6, func(w *world) {
			on(w, "d0").revoke(77)
		}},
		{"no needless time-out", "a transfer times out and nothing is wrong", 5e6, func(w *world) {
			w.finishOut(on(w, "p0"), engine.Finish{Request: "r1", Err: transfer.ErrTimeout})
		}},
		{"hang", "a loop that never ends", 5e6, func(w *world) {
			var again func()
			again = func() { w.after(1e6, again) }
			again()
		}},
		{"hang", "a loop without time", 5e6, func(w *world) {
			var again func()
			again = func() { w.after(0, again) }
			again()
		}},
		{"hang", "a request that nobody ends", 5e6, func(w *world) {
			w.addRequest(Request{Prompt: 1, Max: 1, Decode: "d0"})
		}},
		{"served", "a request fails and nothing is wrong", 5e6, func(w *world) {
			w.cancel(Fault{Request: 1})
		}},
		{"commit first", "the last slice leaves before its record is complete", 5500e3, func(w *world) {
			p := on(w, "p0")
			p.checkCommitted(engine.Copy{Copy: transfer.Copy{Notice: &wire.Result{Request: held(p).Request, Last: true}}})
		}},
		{"result last", "a result leaves with a part of its slice in flight", 5500e3, func(w *world) {
			p := on(w, "p0")
			p.checkLanded(engine.Copy{Copy: transfer.Copy{Epoch: 9, Slice: 1}}, &end{flight: []*write{{sender: p, epoch: 9, slice: 1}}})
		}},
		{"serves again", "an engine's loop stands still for good", 200e6, func(w *world) {
			on(w, "d0").standby = never
		}},
		{"panic", "a machine panics", 5e6, func(w *world) {
			on(w, "p0").deliver(engine.Computed{})
			on(w, "p0").deliver(engine.CopyDone{ID: 1 << 40})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(quietPlan(t), Options{})
			w.after(c.at, func() { c.sabotage(w) })
			w.guard(w.play)
			switch {
			case c.rule == "" && w.bad != nil:
				t.Errorf("nothing was done, and %v", w.bad)
			case c.rule != "" && (w.bad == nil || w.bad.Rule != c.rule):
				t.Errorf("%v, want %q broken", w.bad, c.rule)
			}
		})
	}
}

// A peer that lies about its blocks is beyond what a receiver can see without a checksum: the
// simulator sees the wrong bytes, and makes the plan small.
func TestShrink(t *testing.T) {
	p := quietPlan(t)
	for range 5 {
		p.Requests = append(p.Requests, Request{At: 3e6, Prompt: 17, Max: 3, IgnoreEOS: true, Prefill: "p0", Decode: "d0"})
	}
	p.Cluster.PrefillBlocks, p.Cluster.DecodeBlocks, p.Cluster.Seqs = 60, 60, 8
	p.Faults = []Fault{
		{Kind: Delay, Request: 1, On: AtRegister, Nth: 1, For: 1e6},
		{Kind: Stall, Node: "p0", At: 2e6, For: 1e6},
		{Kind: Corrupt, Request: 5, On: AtRegister, Nth: 1, Field: "swap"},
		{Kind: Duplicate, Request: 3, On: AtResult, Nth: 1, For: 1e6},
		{Kind: Slow, Node: "p0", Peer: "d0", At: 1e6, For: 1e6, By: 4},
	}
	small, bad := Shrink(p)
	if bad == nil || bad.Rule != "right bytes" {
		t.Fatalf("%v, want wrong bytes", bad)
	}
	if len(small.Requests) != 1 || len(small.Faults) != 1 || small.Faults[0].Field != "swap" {
		t.Errorf("not small:\n%s", small)
	}
	again, err := Parse(small.String())
	if err != nil {
		t.Fatal(err)
	}
	if got := Run(again, Options{}).Violation; got == nil || *got != *bad {
		t.Errorf("the small script gives %v, and the plan %v", got, bad)
	}
}

func TestTraceOpens(t *testing.T) {
	p := quietPlan(t)
	o := Run(p, Options{Trace: true})
	var b strings.Builder
	if err := o.Trace.Write(&b, p); err != nil {
		t.Fatal(err)
	}
	checkTrace(t, b.String())
}
