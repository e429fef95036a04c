//go:build linux

package shm

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/wire"
)

func raw(kind, length uint32, n int) []byte {
	b := make([]byte, n)
	le.PutUint32(b, length)
	le.PutUint32(b[4:], kind)
	return b
}

// What no agent writes into its ring costs the peer its connection, and nobody else anything.
//
// case: 05
func TestBrokenRecordsDropThePeer(t *testing.T) {
	for name, records := range map[string][][]byte{
		"no length":          {raw(recordPart, 0, 8)},
		"odd length":         {raw(recordPart, 41, 48)},
		"longer than came":   {raw(recordPart, 800, 48)},
		"longer than any":    {raw(recordPart, maxRecord+8, 48)},
		"unknown kind":       {raw(99, 8, 8)},
		"short part":         {raw(recordPart, 16, 16)},
		"short ack":          {raw(recordAck, 16, 16)},
		"short notice":       {raw(recordNotice, 8, 8)},
		"more ranges":        {func() []byte { b := appendPart(nil, onePair(1)); le.PutUint32(b[36:], 2); return b }()},
		"flags":              {func() []byte { b := appendPart(nil, onePair(1)); le.PutUint32(b[28:], 8); return b }()},
		"a range of nothing": {appendPart(nil, with(onePair(1), func(p *partRecord) { p.pairs[0].length = 0 }))},
		"too many bytes":     {appendPart(nil, with(onePair(1), func(p *partRecord) { p.pairs[0].length = wire.MaxBulk + 1 }))},
		"no notice came":     {appendPart(nil, with(onePair(1), func(p *partRecord) { p.hasNotice, p.notice = true, 5 }))},
		"a notice for none":  {appendNotice(nil, []byte("abc")), appendPart(nil, onePair(1))},
		"an early notice":    {appendPart(nil, with(onePair(1), func(p *partRecord) { p.last, p.hasNotice = false, true }))},
		"an unknown write":   {appendPart(nil, with(onePair(9), func(p *partRecord) { p.index = 1 }))},
		"a part left out": {
			appendPart(nil, with(onePair(1), func(p *partRecord) { p.last = false })),
			appendPart(nil, with(onePair(1), func(p *partRecord) { p.index = 2 })),
		},
		"another epoch": {
			appendPart(nil, with(onePair(1), func(p *partRecord) { p.last = false })),
			appendPart(nil, with(onePair(1), func(p *partRecord) { p.index, p.epoch = 1, 2 })),
		},
		"an old write again": {appendPart(nil, onePair(2)), appendPart(nil, onePair(1))},
		"an ack of nothing":  {appendAck(nil, &ackRecord{number: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			a, mem := running(t, Options{})
			h := pose(t, a)
			a.Grant(1, wire.Life{2}, []agent.Desc{{Length: 4096}})
			h.pool[0] = 7
			for _, r := range records {
				h.say(r)
			}
			if e := await[agent.PeerLost](t, a); !errors.Is(e.Err, agent.ErrPeerLost) {
				t.Error(e.Err)
			}
			if len(records) == 1 && mem[0] != 0 {
				t.Error("a byte landed")
			}
			pose(t, a) // the agent serves on
		})
	}
}

// Counters that no agent writes are found out too.
func TestBrokenCountersDropThePeer(t *testing.T) {
	for name, spoil := range map[string]func(*Agent, *hand){
		"more than a ring": func(_ *Agent, h *hand) { h.mine.tail().Store(ringBytes + 8) },
		"backward":         func(_ *Agent, h *hand) { h.mine.tail().Store(^uint64(0) - 7) },
		"odd":              func(_ *Agent, h *hand) { h.mine.tail().Store(13) },
		"took what was not put": func(a *Agent, h *hand) {
			h.mine.head().Store(1 << 40)
			a.Write(agent.Transfer{ID: 1, Peer: wire.Life{2}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := running(t, Options{})
			h := pose(t, a)
			await[agent.PeerUp](t, a)
			spoil(a, h)
			must(t, h.peer.ring())
			await[agent.PeerLost](t, a)
		})
	}
}

// A range outside the memory of either side, and an epoch of somebody else, are refused.
//
// req: PIPE-32
func TestForeignRangesAreRefused(t *testing.T) {
	a, mem := running(t, Options{})
	h := pose(t, a)
	for i := range h.pool {
		h.pool[i] = 7
	}
	all := []agent.Desc{{Length: 1 << 40}}
	a.Grant(1, wire.Life{2}, all)
	a.Grant(2, wire.Life{3}, all)
	for i, change := range []func(*partRecord){
		func(p *partRecord) { p.pairs[0].fromRegion = 1 },
		func(p *partRecord) { p.pairs[0].toRegion = 1 },
		func(p *partRecord) { p.pairs[0].from = poolBytes - 4095 },
		func(p *partRecord) { p.pairs[0].to = poolBytes - 4095 },
		func(p *partRecord) { p.pairs[0].from = ^uint64(0) - 100 },
		func(p *partRecord) { p.pairs[0].to = ^uint64(0) - 100 },
		func(p *partRecord) { p.epoch = 2 },
		func(p *partRecord) { p.epoch = 3 },
	} {
		h.say(appendPart(nil, with(onePair(uint64(i+1)), change)))
		k, err := decodeAck(h.hear())
		if err != nil || !k.refused || k.reason == "" || k.number != uint64(i+1) || k.bytes != 4096 {
			t.Errorf("%d: %+v, %v", i, k, err)
		}
	}
	if !bytes.Equal(mem, make([]byte, poolBytes)) {
		t.Error("a byte landed")
	}
	h.say(appendPart(nil, onePair(100)))
	if k, err := decodeAck(h.hear()); err != nil || k.refused || !bytes.Equal(mem[:4096], h.pool[:4096]) {
		t.Errorf("what is granted: %+v, %v", k, err)
	}
}

// What is copied out of the memory of a peer that has given the connection up may be anything:
// it is not told, though the socket says nothing yet. So it is when the two were stopped and go
// on in whatever order.
//
// case: 05
// req: PIPE-32
func TestWhatAPeerGaveUpIsNotTold(t *testing.T) {
	for _, kind := range []string{"write", "read"} {
		a, _ := running(t, Options{})
		h := pose(t, a)
		await[agent.PeerUp](t, a)
		a.Grant(1, wire.Life{2}, []agent.Desc{{Length: 4096}})
		h.mine.closed().Store(1)
		if kind == "write" {
			h.say(appendNotice(nil, []byte("good")))
			h.say(appendPart(nil, with(onePair(1), func(p *partRecord) { p.hasNotice, p.notice = true, 4 })))
		} else {
			l := agent.List{{Length: 4096}}
			a.Read(agent.Transfer{ID: 1, Peer: wire.Life{2}, Local: l, LocalIdx: []int32{0}, Remote: l, RemoteIdx: []int32{0}})
		}
		for lost := false; !lost; {
			switch e := (<-a.Events()).(type) {
			case agent.Notice:
				t.Errorf("%s: notice %q", kind, e.Payload)
			case agent.Done:
				if !errors.Is(e.Err, agent.ErrPeerLost) {
					t.Errorf("%s: %v", kind, e.Err)
				}
			case agent.PeerLost:
				if lost = true; !errors.Is(e.Err, errGivenUp) {
					t.Errorf("%s: %v", kind, e.Err)
				}
			}
		}
	}
}

// A peer can see that we have given the connection up before anybody uses the blocks again.
//
// req: PIPE-32
func TestGivingUpShowsInTheDoor(t *testing.T) {
	a, _ := running(t, Options{})
	h := pose(t, a)
	await[agent.PeerUp](t, a)
	a.Write(agent.Transfer{ID: 1, Peer: wire.Life{2}})
	h.hear()
	if h.peer.door.closed().Load() != 0 {
		t.Error("it shows before")
	}
	a.Drop(wire.Life{2}, nil)
	await[agent.Done](t, a)
	if h.peer.door.closed().Load() == 0 {
		t.Error("it does not show")
	}
}

// Memory that its owner could cut off under us is not mapped; nor is a kit that is not whole.
func TestBadKitsAreRefused(t *testing.T) {
	unsealed := func(t *testing.T) int {
		fd, err := unix.MemfdCreate("unsealed", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		must(t, unix.Ftruncate(fd, poolBytes))
		return fd
	}
	for name, spoil := range map[string]func(*testing.T, *kit, []int) []int{
		"unsealed":  func(t *testing.T, _ *kit, fs []int) []int { return []int{fs[0], fs[1], unsealed(t)} },
		"no memory": func(_ *testing.T, _ *kit, fs []int) []int { return []int{fs[0], fs[1], fs[1]} },
		"larger than it is": func(_ *testing.T, k *kit, fs []int) []int {
			k.mappings[0] += 1 << 20
			return fs
		},
		"one too few":   func(_ *testing.T, _ *kit, fs []int) []int { return fs[:2] },
		"one too many":  func(_ *testing.T, _ *kit, fs []int) []int { return append(fs, fs[0]) },
		"none":          func(_ *testing.T, _ *kit, fs []int) []int { return nil },
		"a small door":  func(t *testing.T, _ *kit, fs []int) []int { return []int{unsealed(t), fs[1], fs[2]} },
		"blocking bell": func(t *testing.T, _ *kit, fs []int) []int { return []int{fs[0], blocking(t), fs[2]} },
		"a far region": func(_ *testing.T, k *kit, fs []int) []int {
			k.regions[0].offset = ^uint64(0) - 5
			return fs
		},
		"a long region": func(_ *testing.T, k *kit, fs []int) []int {
			k.regions[0].length = poolBytes + 1
			return fs
		},
		"another mapping": func(_ *testing.T, k *kit, fs []int) []int {
			k.regions[0].mapping = 1
			return fs
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := running(t, Options{})
			h, err := dialHand(t, a, auth.Secret{})
			must(t, err)
			h.claim()
			files := spoil(t, &h.own.kit, h.files())
			must(t, h.c.sendKit(&h.own.kit, files))
			if f, b, err := h.c.Get(); err != nil || f != wire.FrameRefuse {
				t.Errorf("%s, %q, %v", f, b, err)
			}
			if a.peers.up(wire.Life{2}) != nil {
				t.Error("the peer is up")
			}
			pose(t, a)
		})
	}
}

func blocking(t *testing.T) int {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// Without the deployment's token a process learns nothing but that.
func TestTokenIsWanted(t *testing.T) {
	a, _ := running(t, Options{Secret: auth.New("right")})
	for _, s := range []auth.Secret{{}, auth.New("wrong")} {
		h, err := dialHand(t, a, s)
		if err == nil || !strings.Contains(err.Error(), "token") {
			t.Error(err)
		}
		h.c.Close()
	}
	h, err := dialHand(t, a, auth.New("right"))
	must(t, err)
	h.claim()
}

// Who connects and says nothing, or a byte now and then, is let go in time.
func TestSilentStrangerIsLetGo(t *testing.T) {
	a, _ := running(t, Options{Handshake: 50 * time.Millisecond})
	c, err := net.Dial("unix", socketPrefix+a.name)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	must(t, func() error { _, err := c.Write([]byte("k")); return err }())
	if _, err := io.Copy(io.Discard, c); errors.Is(err, unix.ETIMEDOUT) {
		t.Error(err)
	}
}

// A hello of another life than the proof's is none.
func TestHelloOfAnotherLife(t *testing.T) {
	a, _ := running(t, Options{})
	h, err := dialHand(t, a, auth.Secret{})
	must(t, err)
	must(t, h.c.Put(wire.FrameHello, helloOf(3)))
	if _, err := h.c.expect(wire.FrameHello); err == nil || !strings.Contains(err.Error(), "another life") {
		t.Error(err)
	}
}

// A peer that says nothing any more is lost in time.
//
// case: 05
func TestSilentPeerIsLost(t *testing.T) {
	a, _ := running(t, Options{Ping: 20 * time.Millisecond, DeadAfter: 200 * time.Millisecond})
	pose(t, a)
	await[agent.PeerUp](t, a)
	a.Write(agent.Transfer{ID: 1, Peer: wire.Life{2}})
	if d := await[agent.Done](t, a); !errors.Is(d.Err, agent.ErrPeerLost) {
		t.Error(d.Err)
	}
	if e := await[agent.PeerLost](t, a); !strings.Contains(e.Err.Error(), "no sign of life") {
		t.Error(e.Err)
	}
}

// A peer that takes nothing off our ring holds up neither the caller nor anything but itself.
func TestFullRingDoesNotBlock(t *testing.T) {
	a, _ := running(t, Options{DeadAfter: time.Hour})
	h := pose(t, a)
	await[agent.PeerUp](t, a)
	notice := make([]byte, ringBytes)
	for id := range uint64(50) {
		a.Write(agent.Transfer{ID: id, Peer: wire.Life{2}, Epoch: 1, Notice: notice})
	}
	got := 0
	for got < len(notice) {
		b := h.hear()
		if le.Uint32(b[4:]) != recordNotice {
			t.Fatalf("kind %d", le.Uint32(b[4:]))
		}
		piece, err := decodeNotice(b)
		must(t, err)
		if got += len(piece); h.hungry() {
			must(t, h.peer.ring())
		}
	}
	a.Drop(wire.Life{2}, nil)
	for range 50 {
		if d := await[agent.Done](t, a); !errors.Is(d.Err, agent.ErrPeerLost) {
			t.Error(d.Err)
		}
	}
}
