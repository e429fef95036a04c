package choose_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/choose"
	"kvferry/agent/mem"
	"kvferry/wire"
)

var quiet = slog.New(slog.DiscardHandler)

func memAgent(w *mem.Network, o agenttest.Options, gated bool) agent.Agent {
	opt := mem.Options{Network: w, Addr: o.Addr, Log: quiet, RevokeGrace: o.RevokeGrace, FrameBytes: o.FrameBytes}
	if o.Gate != nil && gated {
		opt.Pace = o.Gate.Take
	}
	return mem.New(opt)
}

// newMake makes agents of a base and of as many fast ones, of which only the last ones reach each
// other.
func newMake(dead, alive int) func() agenttest.Make {
	return func() agenttest.Make {
		base := mem.NewNetwork()
		fast := make([]*mem.Network, dead+alive)
		for i := range fast {
			fast[i] = mem.NewNetwork()
		}
		return func(_ testing.TB, o agenttest.Options) agent.Agent {
			opt := choose.Options{Log: quiet, Base: choose.Named{Name: "base", Agent: memAgent(base, o, alive == 0)}}
			anywhere := o
			anywhere.Addr = ""
			for i, w := range fast {
				if i < dead {
					w = mem.NewNetwork()
				}
				name := string(rune('a' + i))
				opt.Fast = append(opt.Fast, choose.Named{Name: name, Agent: memAgent(w, anywhere, i >= dead)})
			}
			return choose.New(opt)
		}
	}
}

func TestConformance(t *testing.T) {
	for name, n := range map[string][2]int{
		"base alone": {}, "fast": {0, 1}, "falls back": {2, 0}, "second try": {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.RunInBubble(t, newMake(n[0], n[1]))
			if name == "fast" { // real goroutines race once; what they race for is the same in all
				agenttest.RunOnHeap(t, newMake(n[0], n[1])())
			}
		})
	}
}

// side is one process's agent.
type side struct {
	*choose.Agent
	t    *testing.T
	life wire.Life
}

func start(t *testing.T, life byte, base *mem.Network, fast map[string]*mem.Network, order ...string) *side {
	t.Helper()
	o := choose.Options{Log: quiet, Base: choose.Named{Name: "tcp", Agent: mem.New(mem.Options{Network: base, Log: quiet})}}
	for _, name := range order {
		o.Fast = append(o.Fast, choose.Named{Name: name, Agent: mem.New(mem.Options{Network: fast[name], Log: quiet})})
	}
	s := &side{choose.New(o), t, wire.Life{life}}
	if _, err := s.Register(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(wire.Hello{Life: s.life, Identity: wire.Identity{Version: wire.Version}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func await[E agent.Event](s *side) E {
	s.t.Helper()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case e := <-s.Events():
			if e, ok := e.(E); ok {
				return e
			}
		case <-timeout.C:
			var e E
			s.t.Fatalf("no %T comes", e)
		}
	}
}

// Both sides use the fastest that both have, whichever of them dials and chooses, and in
// the order of the one that chooses.
func TestFastestOfBoth(t *testing.T) {
	for _, c := range []struct {
		a, b []string
		want string
	}{
		{[]string{"shm", "nixl"}, []string{"shm", "nixl"}, "shm"},
		{[]string{"shm", "nixl"}, []string{"nixl"}, "nixl"},
		{[]string{"nixl", "shm"}, []string{"shm", "nixl"}, "nixl"},
		{[]string{"shm"}, []string{"nixl"}, "tcp"},
		{[]string{"shm"}, nil, "tcp"},
		{nil, []string{"shm"}, "tcp"},
		{nil, nil, "tcp"},
	} {
		for _, dials := range []string{"the one that chooses", "the other"} {
			base, fast := mem.NewNetwork(), map[string]*mem.Network{"shm": mem.NewNetwork(), "nixl": mem.NewNetwork()}
			a, b := start(t, 1, base, fast, c.a...), start(t, 2, base, fast, c.b...)
			if dials == "the other" {
				b.Connect(a.Addr())
			} else {
				a.Connect(b.Addr())
			}
			await[agent.PeerUp](a)
			await[agent.PeerUp](b)
			if x, y := a.Via(b.life), b.Via(a.life); x != c.want || y != c.want {
				t.Errorf("%v and %v, %s dials: %q and %q, want %q", c.a, c.b, dials, x, y, c.want)
			}
		}
	}
}

// An agent that does not take the memory, or does not start, is left out, and the rest serve.
func TestWhatFailsIsLeftOut(t *testing.T) {
	base, fast := mem.NewNetwork(), map[string]*mem.Network{"shm": mem.NewNetwork()}
	a, b := start(t, 1, base, fast, "shm"), start(t, 2, base, fast, "shm")
	broken := mem.New(mem.Options{Network: mem.NewNetwork(), Log: quiet})
	if _, err := broken.Register(make([]byte, 8)); err != nil { // so that it numbers regions otherwise
		t.Fatal(err)
	}
	c := &side{choose.New(choose.Options{
		Log: quiet, Base: choose.Named{Name: "tcp", Agent: mem.New(mem.Options{Network: base, Log: quiet})},
		Fast: []choose.Named{{Name: "shm", Agent: broken}},
	}), t, wire.Life{3}}
	if _, err := c.Register(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(wire.Hello{Life: c.life, Identity: wire.Identity{Version: wire.Version}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	a.Connect(b.Addr())
	await[agent.PeerUp](a)
	c.Connect(b.Addr())
	await[agent.PeerUp](c)
	if x, y := a.Via(b.life), c.Via(b.life); x != "shm" || y != "tcp" {
		t.Errorf("%q and %q", x, y)
	}
}
