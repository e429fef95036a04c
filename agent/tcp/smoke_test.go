package tcp

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

func next[E agent.Event](t *testing.T, a *Agent) E {
	t.Helper()
	select {
	case e := <-a.Events():
		if e, ok := e.(E); ok {
			return e
		}
		t.Fatalf("event %T %+v", e, e)
	case <-time.After(5 * time.Second):
		t.Fatal("no event")
	}
	panic("unreachable")
}

func start(t *testing.T) (*Agent, []byte, wire.Life) {
	a := New(Options{})
	mem := make([]byte, 1<<20)
	if _, err := a.Register(mem); err != nil {
		t.Fatal(err)
	}
	var h wire.Hello
	h.Identity.Version = wire.Version
	rand.Read(h.Life[:])
	if err := a.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	return a, mem, h.Life
}

func TestSmoke(t *testing.T) {
	a, am, al := start(t)
	b, bm, bl := start(t)
	a.Connect(b.Addr())
	t.Log(next[agent.PeerUp](t, a))
	next[agent.PeerUp](t, b)
	rand.Read(am)
	b.Grant(7, al, []agent.Desc{{Offset: 4096, Length: 8192}})
	list := agent.List{{Offset: 0, Length: 4096}, {Offset: 4096, Length: 4096}, {Offset: 8192, Length: 4096}}
	a.Write(agent.Transfer{ID: 1, Peer: bl, Local: list, LocalIdx: []int32{0}, Remote: list, RemoteIdx: []int32{1}, Epoch: 7, Notice: []byte("hi")})
	if n := next[agent.Notice](t, b); string(n.Payload) != "hi" || string(bm[4096:8192]) != string(am[:4096]) {
		t.Fatal(n)
	}
	if d := next[agent.Done](t, a); d.Err != nil {
		t.Fatal(d)
	}
	b.Revoke(7)
	next[agent.Revoked](t, b)
	a.Write(agent.Transfer{ID: 1, Peer: bl, Local: list, LocalIdx: []int32{0}, Remote: list, RemoteIdx: []int32{1}, Epoch: 7, Notice: []byte("hi")})
	d := next[agent.Done](t, a)
	t.Log(d.Err)
	if d.Err == nil {
		t.Fatal(d)
	}
	b.Read(agent.Transfer{ID: 9, Peer: al, Local: list, LocalIdx: []int32{2}, Remote: list, RemoteIdx: []int32{2}})
	if d := next[agent.Done](t, b); d.Err != nil || string(bm[8192:12288]) != string(am[8192:12288]) {
		t.Fatal(d)
	}
	a.Notify(bl, []byte("x"))
	next[agent.Notice](t, b)
	a.Close(context.Background())
	t.Log(next[agent.PeerLost](t, b))
	t.Log(next[agent.PeerLost](t, a))
}
