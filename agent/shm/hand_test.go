//go:build linux

package shm

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/agent/memory"
	"kvferry/wire"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

const poolBytes = 1 << 20

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func helloOf(life byte) wire.Hello {
	return wire.Hello{Life: wire.Life{life}, Identity: wire.Identity{Version: wire.Version, Model: "m"}}
}

// mapped is a pool that ends with the test.
func mapped(t testing.TB, size int) []byte {
	t.Helper()
	m, err := memory.Map("shm-test", size)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m.Bytes()
}

// running starts an agent of life 1 with one region.
func running(t testing.TB, o Options) (*Agent, []byte) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a, err := New(o)
	must(t, err)
	mem := mapped(t, poolBytes)
	_, err = a.Register(mem)
	must(t, err)
	must(t, a.Start(helloOf(1)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, a.Close(ctx))
		for range a.Events() {
		}
	})
	return a, mem
}

// await waits for an event of the type, and skips others.
func await[E agent.Event](t testing.TB, a agent.Agent) E {
	t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case e, ok := <-a.Events():
			if e, is := e.(E); is {
				return e
			}
			if !ok {
				t.Fatal("events ended")
			}
		case <-timeout:
			t.Fatalf("no %T comes", *new(E))
		}
	}
}

// hand is a peer by hand, of life 2, with one region.
type hand struct {
	t    testing.TB
	c    *shake
	mine door
	pool []byte
	bell int
	own  own
	peer *peerMemory
	producer
	consumer
}

// dialHand connects to an agent and shakes hands up to the claim.
func dialHand(t testing.TB, a *Agent, secret auth.Secret) (*hand, error) {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socketPrefix + a.name})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(patience)))
	h := &hand{t: t, c: newShake(t.Context(), c), pool: mapped(t, poolBytes)}
	must(t, h.own.add(h.pool))
	t.Cleanup(h.own.close)
	h.mine = door{mapped(t, doorBytes)}
	h.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(h.bell) })
	return h, h.c.prove(secret.Dial, wire.Life{2})
}

// claim goes on to where the agent wants our kit, and has mapped its own.
func (h *hand) claim() {
	h.t.Helper()
	must(h.t, h.c.Put(wire.FrameHello, helloOf(2)))
	_, err := h.c.expect(wire.FrameHello)
	must(h.t, err)
	must(h.t, h.c.Put(wire.FrameClaim, wire.Claim{Bulk: 1}))
	_, err = h.c.expect(wire.FrameWelcome)
	must(h.t, err)
	k, files, err := h.c.receiveKit()
	must(h.t, err)
	h.peer, err = take(k, files)
	must(h.t, err)
	h.t.Cleanup(h.peer.release)
	h.producer = producer{mine: h.mine, peer: h.peer.door}
	h.consumer = consumer{mine: h.mine, peer: h.peer.door}
}

// files are the descriptors of our kit.
func (h *hand) files() []int {
	h.t.Helper()
	fd, _, err := memory.Share(h.mine.mem)
	must(h.t, err)
	h.t.Cleanup(func() { unix.Close(fd) })
	return append([]int{fd, h.bell}, h.own.files...)
}

// pose makes a peer by hand that is up.
func pose(t testing.TB, a *Agent) *hand {
	t.Helper()
	h, err := dialHand(t, a, auth.Secret{})
	must(t, err)
	h.claim()
	must(t, h.c.sendKit(&h.own.kit, h.files()))
	_, err = h.c.expect(wire.FrameReady)
	must(t, err)
	return h
}

// say puts a record into our ring, whatever it is, and rings.
func (h *hand) say(record []byte) {
	h.t.Helper()
	h.put(record)
	must(h.t, h.peer.ring())
}

// hear waits for the agent's next record.
func (h *hand) hear() []byte {
	h.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		b, err := h.take()
		must(h.t, err)
		if b != nil {
			return b
		}
		if time.Now().After(deadline) {
			h.t.Fatal("no record comes")
		}
		h.doze()
		poll := []unix.PollFd{{Fd: int32(h.bell), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 100); err != nil && err != unix.EINTR {
			h.t.Fatal(err)
		}
		var b8 [8]byte
		unix.Read(h.bell, b8[:])
	}
}

// onePair is a part of one block.
func onePair(number uint64) *partRecord {
	return &partRecord{number: number, epoch: 1, last: true, pairs: []pair{{length: 4096}}}
}

func with(p *partRecord, change func(*partRecord)) *partRecord {
	change(p)
	return p
}
