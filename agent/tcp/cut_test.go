package tcp_test

import (
	"errors"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// couple connects two agents, of which the first has the options.
func couple(t testing.TB, o tcp.Options) (a, b *tcp.Agent) {
	a, _ = running(t, o)
	o.Conn = nil
	b, _ = runningAs(t, o, hello(2))
	a.Connect(b.Addr())
	await[agent.PeerUp](t, a)
	await[agent.PeerUp](t, b)
	b.Grant(1, wire.Life{1}, []agent.Desc{{Length: size}})
	return a, b
}

// A bulk connection that breaks after any number of bytes loses the peer on both sides, and
// the write fails; its notice is not delivered.
func TestBulkConnectionBreaks(t *testing.T) {
	for _, n := range []int64{0, 1, 4, 5, 30, 100, 5000, 1 << 20, 1<<20 + 3, size - 1} {
		g := fault.NewGate()
		a, b := couple(t, tcp.Options{Conn: g.Bulk, Log: quietLog})
		g.CutAfter(n)
		a.Write(transfer(1, 2, size, "never"))
		if d := await[agent.Done](t, a); !errors.Is(d.Err, agent.ErrPeerLost) {
			t.Errorf("after %d bytes: %+v", n, d)
		}
		await[agent.PeerLost](t, a)
		for {
			e := <-b.Events()
			if _, ok := e.(agent.PeerLost); ok {
				break
			}
			t.Errorf("after %d bytes: %T %v", n, e, e)
		}
	}
}

// Whoever connects again while the old connection is still ending gets a new one, not the news
// that the old one is up.
func TestConnectWhileTheOldOneEnds(t *testing.T) {
	g := fault.NewGate()
	a, b := couple(t, tcp.Options{Conn: g.All, Log: quietLog})
	g.Allow(0)
	a.Notify(wire.Life{2}, []byte("held"))
	<-g.Held() // so that the last words are held too
	a.Drop(wire.Life{2}, nil)
	a.Connect(b.Addr())
	if e, ok := (<-a.Events()).(agent.PeerLost); !ok {
		t.Errorf("%v came first", e)
	}
	if e, ok := (<-a.Events()).(agent.PeerUp); !ok {
		t.Errorf("%v came then", e)
	}
}

// When nothing gets through in one direction any more, both sides lose the peer in time: one
// hears nothing, and tells the other or falls silent itself.
//
// case: 05
func TestPartition(t *testing.T) {
	g := fault.NewGate()
	a, b := couple(t, tcp.Options{
		Conn: g.All, Ping: 20 * time.Millisecond, DeadAfter: 300 * time.Millisecond, Log: quietLog,
	})
	g.Allow(100)
	a.Write(transfer(1, 2, size, "never"))
	if d := await[agent.Done](t, a); !errors.Is(d.Err, agent.ErrPeerLost) {
		t.Errorf("%+v", d)
	}
	await[agent.PeerLost](t, a)
	await[agent.PeerLost](t, b)
}
