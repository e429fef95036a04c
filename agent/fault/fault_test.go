package fault_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/fault"
	"kvferry/agent/mem"
	"kvferry/wire"
)

// A link that is slow and holds everything for a while does what any link does.
func TestConformanceInBubble(t *testing.T) {
	for name, o := range map[string]fault.Options{
		"slow":  {Rate: 100 << 20, Delay: time.Millisecond},
		"shaky": {Script: fault.Seeded(1, fault.Odds{Delay: 3 * time.Millisecond})},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.RunInBubble(t, func() agenttest.Make {
				network := mem.NewNetwork()
				return func(_ testing.TB, m agenttest.Options) agent.Agent {
					opt := mem.Options{
						Network: network, Addr: m.Addr, Log: slog.New(slog.DiscardHandler),
						RevokeGrace: m.RevokeGrace, FrameBytes: m.FrameBytes,
					}
					if m.Gate != nil {
						opt.Pace = m.Gate.Take
					}
					return fault.New(mem.New(opt), o)
				}
			}, "short write is not held up") // the decorator's link is one for all
		})
	}
}

const size = 1 << 20

// couple is a decorated agent and its peer, connected, with a region and a grant of it each.
type couple struct {
	t     *testing.T
	a     *fault.Agent
	b     agent.Agent
	lifeA wire.Life
	lifeB wire.Life
	memA  []byte
	memB  []byte
	start time.Time
}

func newCouple(t *testing.T, o fault.Options) *couple {
	network := mem.NewNetwork()
	quiet := slog.New(slog.DiscardHandler)
	c := &couple{
		t: t, a: fault.New(mem.New(mem.Options{Network: network, Log: quiet}), o),
		b: mem.New(mem.Options{Network: network, Log: quiet}), lifeA: wire.Life{1}, lifeB: wire.Life{2},
		memA: make([]byte, size), memB: make([]byte, size),
	}
	for life, x := range map[wire.Life]struct {
		agent.Agent
		mem []byte
	}{c.lifeA: {c.a, c.memA}, c.lifeB: {c.b, c.memB}} {
		if _, err := x.Register(x.mem); err != nil {
			t.Fatal(err)
		}
		if err := x.Start(wire.Hello{Life: life}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(c.close)
	c.a.Connect(c.b.Addr())
	next[agent.PeerUp](t, c.a)
	next[agent.PeerUp](t, c.b)
	c.b.Grant(1, c.lifeA, []agent.Desc{{Length: size}})
	c.start = time.Now()
	return c
}

func (c *couple) close() {
	for _, x := range []agent.Agent{c.a, c.b} {
		if err := x.Close(context.Background()); err != nil {
			c.t.Error(err)
		}
		for range x.Events() {
		}
	}
}

// next is the next event, which must be an E.
func next[E agent.Event](t *testing.T, a agent.Agent) E {
	t.Helper()
	e := <-a.Events()
	v, ok := e.(E)
	if !ok {
		t.Fatalf("%T %v came", e, e)
	}
	return v
}

// write begins a write of so many bytes.
func (c *couple) write(id, bytes uint64, notice string) {
	l := agent.List{{Length: bytes}}
	c.a.Write(agent.Transfer{
		ID: id, Peer: c.lifeB, Local: l, LocalIdx: []int32{0}, Remote: l, RemoteIdx: []int32{0}, Epoch: 1,
		Notice: []byte(notice),
	})
}

// at fails unless so much time has passed since the start.
func (c *couple) at(want time.Duration) {
	c.t.Helper()
	if d := time.Since(c.start); d < want || d > want+time.Millisecond {
		c.t.Errorf("after %v, not %v", d, want)
	}
}

// Transfers share the rate, one after another; bytes, notice and Done come when the link has
// moved them; notices alone do not wait, and nor does the caller.
//
// req: PIPE-27
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCouple(t, fault.Options{Rate: 1 << 20, Delay: 10 * time.Millisecond})
		c.memA[0] = 7
		c.write(1, size, "one")
		c.write(2, size/4, "two")
		c.at(0)
		c.a.Notify(c.lifeB, []byte("alone"))
		if e := next[agent.Notice](t, c.b); string(e.Payload) != "alone" {
			t.Errorf("%q", e.Payload)
		}
		c.at(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if peek(c.memB) != 0 {
			t.Error("bytes have landed before the link moved them")
		}
		for id, want := range []time.Duration{1: 1010 * time.Millisecond, 2: 1270 * time.Millisecond} {
			if id == 0 {
				continue
			}
			next[agent.Notice](t, c.b)
			if d := next[agent.Done](t, c.a); d.ID != uint64(id) || d.Err != nil {
				t.Errorf("%+v", d)
			}
			if peek(c.memB) != 7 {
				t.Error("no bytes")
			}
			c.at(want)
		}
		// The link was idle: the next transfer starts at once.
		time.Sleep(730 * time.Millisecond)
		c.write(3, size/2, "three")
		next[agent.Done](t, c.a)
		c.at(2510 * time.Millisecond)
	})
}

// peek reads a byte before the agent may have written it.
//
//go:norace
//go:noinline
func peek(b []byte) byte { return b[0] }

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCouple(t, fault.Options{})
		c.a.Stall()
		c.write(1, 10, "write")
		c.a.Notify(c.lifeB, []byte("alone"))
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case e := <-c.b.Events():
			t.Fatalf("%v came through a stall", e)
		case e := <-c.a.Events():
			t.Fatalf("%v came through a stall", e)
		default:
		}
		c.a.Resume()
		next[agent.Notice](t, c.b)
		next[agent.Notice](t, c.b)
		next[agent.Done](t, c.a)
	})
}

func TestScript(t *testing.T) {
	cause := errors.New("scripted")
	for name, c := range map[string]struct {
		script  fault.Script
		err     error  // of write 2
		notices string // that come, in order
		lost    bool
	}{
		"none":              {nil, nil, "a1b2", false},
		"fail a write":      {fault.Nth(fault.Write, 2, fault.Action{Fail: cause}), cause, "a1b", false},
		"lose its notice":   {fault.Nth(fault.Write, 2, fault.Action{LoseNotice: true}), nil, "a1b", false},
		"lose a notice":     {fault.Nth(fault.Notify, 1, fault.Action{LoseNotice: true}), nil, "1b2", false},
		"drop at a write":   {fault.Nth(fault.Write, 2, fault.Action{Drop: true}), nil, "a1b", true},
		"another operation": {fault.Nth(fault.Read, 1, fault.Action{Fail: cause}), nil, "a1b2", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newCouple(t, fault.Options{Script: c.script})
				for _, do := range []func(){
					func() { x.a.Notify(x.lifeB, []byte("a")) },
					func() { x.write(1, 10, "1") },
					func() { x.a.Notify(x.lifeB, []byte("b")) },
					func() { x.write(2, 10, "2") },
				} {
					do()
					synctest.Wait()
				}
				got := ""
				for len(got) < len(c.notices) {
					got += string(next[agent.Notice](t, x.b).Payload)
				}
				if got != c.notices {
					t.Errorf("notices %q, want %q", got, c.notices)
				}
				if d := next[agent.Done](t, x.a); d.ID != 1 || d.Err != nil {
					t.Errorf("%+v", d)
				}
				d := next[agent.Done](t, x.a)
				if c.lost {
					next[agent.PeerLost](t, x.a)
					next[agent.PeerLost](t, x.b)
				}
				if d.ID != 2 || (d.Err == nil) != (c.err == nil && !c.lost) || c.err != nil && !errors.Is(d.Err, c.err) {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// A seeded script does the same whatever the order in which its operations come.
func TestSeededIsRepeatable(t *testing.T) {
	odds := fault.Odds{Fail: 0.3, LoseNotice: 0.3, Drop: 0.1, Delay: time.Second, Cause: errors.New("drawn")}
	s, again := fault.Seeded(5, odds), fault.Seeded(5, odds)
	failed, lost, dropped := 0, 0, 0
	var drawn [300]fault.Action
	for n := range drawn {
		drawn[n] = s(fault.Op{Kind: fault.Write, Nth: n})
	}
	for n := len(drawn) - 1; n >= 0; n-- {
		a := again(fault.Op{Kind: fault.Write, Nth: n, Peer: wire.Life{9}})
		if a != drawn[n] {
			t.Errorf("operation %d: %+v and %+v", n, a, drawn[n])
		}
		if a.Fail != nil {
			failed++
		}
		if a.LoseNotice {
			lost++
		}
		if a.Drop {
			dropped++
		}
	}
	if failed < 60 || failed > 120 || lost < 60 || lost > 120 || dropped < 10 || dropped > 60 {
		t.Errorf("of 300: %d failed, %d lost, %d dropped", failed, lost, dropped)
	}
	if s(fault.Op{Kind: fault.Write, Nth: 1}).Delay == s(fault.Op{Kind: fault.Read, Nth: 1}).Delay {
		t.Error("a read and a write draw the same")
	}
}
