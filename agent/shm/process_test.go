//go:build linux

package shm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/agent/shm"
	"kvferry/wire"
)

// childEnv makes this test's binary the peer process: its value is the address to dial.
const childEnv = "KVFERRY_TEST_PEER"

const (
	patience = 20 * time.Second
	size     = 8 << 20
	block    = 32 << 10
	blocks   = size / 2 / block
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		os.Exit(child(addr))
	}
	os.Exit(m.Run())
}

func hello(life byte) wire.Hello {
	return wire.Hello{Life: wire.Life{life}, Identity: wire.Identity{Version: wire.Version, Model: "m"}}
}

var childOptions = shm.Options{Ping: 50 * time.Millisecond, DeadAfter: time.Second, Log: slog.New(slog.DiscardHandler)}

func open(life byte) (*shm.Agent, *memory.Memory, error) {
	a, err := shm.New(childOptions)
	if err != nil {
		return nil, nil, err
	}
	m, err := memory.Map("shm-test", size)
	if err == nil {
		_, err = a.Register(m.Bytes())
	}
	if err == nil {
		err = a.Start(hello(life))
	}
	return a, m, err
}

// child connects, writes into life 1's memory all the time, and reads it, and lets life 1 write into
// the second half of its own, whose blocks must be full of nines when a notice says that they
// landed. It ends when life 1 is lost.
func child(addr string) int {
	a, m, err := open(2)
	if err != nil {
		return 2
	}
	mem := m.Bytes()
	copy(mem, bytes.Repeat([]byte{0xCC}, size/2))
	a.Grant(1, wire.Life{1}, []agent.Desc{{Offset: size / 2, Length: size / 2}})
	a.Connect(addr)
	id := uint64(0)
	push := func() {
		id++
		t := transfer(id, 1)
		if id%3 == 0 {
			t.Notice = nil
			a.Read(t)
			return
		}
		a.Write(t)
	}
	for e := range a.Events() {
		switch e := e.(type) {
		case agent.PeerUp:
			push()
			push()
		case agent.Done:
			push()
		case agent.Notice:
			at := size/2 + int(e.Payload[0])*block
			for i, v := range mem[at : at+block] {
				if v != 9 {
					fmt.Printf("byte %d of what landed is %#x\n", i, v)
					break
				}
			}
		case agent.PeerLost, agent.ConnectFailed:
			fmt.Println(e)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if a.Close(ctx) != nil {
				return 4
			}
			return 0
		}
	}
	return 5
}

// transfer moves the first half of a pool.
func transfer(id uint64, life byte) agent.Transfer {
	t := agent.Transfer{ID: id, Peer: wire.Life{life}, Epoch: 1, Notice: []byte("chunk")}
	for i := range int32(blocks) {
		t.Local = append(t.Local, agent.Desc{Offset: uint64(i) * block, Length: block})
		t.LocalIdx = append(t.LocalIdx, i)
	}
	t.Remote, t.RemoteIdx = t.Local, t.LocalIdx
	return t
}

// one writes a block of the second half.
func one(i byte) agent.Transfer {
	l := agent.List{{Offset: size/2 + uint64(i)*block, Length: block}}
	return agent.Transfer{
		ID: uint64(i), Peer: wire.Life{2}, Epoch: 1, Notice: []byte{i},
		Local: l, LocalIdx: []int32{0}, Remote: l, RemoteIdx: []int32{0},
	}
}

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

func running(t testing.TB) (*shm.Agent, []byte) {
	t.Helper()
	a, m, err := open(1)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, a.Close(ctx))
		for range a.Events() {
		}
		must(t, m.Close())
	})
	return a, m.Bytes()
}

func spawn(t testing.TB, a *shm.Agent) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+a.Addr())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, out
}

// A peer process that is killed, or stopped, while both write and it reads: every transfer ends in
// bounded time, the blocks are ours again then, and when a stopped one goes on no late byte lands
// in them, and it takes nothing for KV that we wrote into blocks which it was to read.
//
// case: 05
// req: PIPE-32
func TestPeerProcessDies(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			a, mem := running(t)
			a.Grant(1, wire.Life{2}, []agent.Desc{{Length: size / 2}})
			copy(mem[size/2:], bytes.Repeat([]byte{9}, size/2))
			cmd, out := spawn(t, a)
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended already where all went well
			await[agent.PeerUp](t, a)
			await[agent.Notice](t, a)
			for i := range byte(blocks) {
				if i == blocks/2 { // some are under way, and some come after
					must(t, cmd.Process.Signal(sig))
				}
				a.Write(one(i))
			}
			begin := time.Now()
			for range blocks {
				if d := await[agent.Done](t, a); d.Err != nil && !errors.Is(d.Err, agent.ErrPeerLost) && !errors.Is(d.Err, agent.ErrUnknownPeer) {
					t.Error(d.Err)
				}
			}
			await[agent.PeerLost](t, a)
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
			a.Revoke(1)
			await[agent.Revoked](t, a)
			after := bytes.Repeat([]byte{7}, size)
			copy(mem, after)
			if sig == syscall.SIGSTOP {
				must(t, cmd.Process.Signal(syscall.SIGCONT))
			}
			line, _ := io.ReadAll(out)
			if strings.Contains(string(line), "what landed") {
				t.Errorf("the peer took what was not its own: %s", line)
			}
			err := cmd.Wait()
			if sig == syscall.SIGSTOP && (err != nil || len(line) == 0) {
				t.Errorf("the stopped peer does not find out: %q, %v", line, err)
			}
			if !bytes.Equal(mem, after) {
				t.Error("a byte landed late")
			}
		})
	}
}

// held counts what this process holds of shared memory: mappings, descriptors and goroutines.
func held(t testing.TB) (maps, files, goroutines int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return strings.Count(string(b), "memfd:"), len(fds), runtime.NumGoroutine()
}

// Peers that are killed in the middle of transfers leave nothing behind, however many there were,
// and each that follows under another life is served.
//
// case: 05
func TestNothingIsLeftOfLostPeers(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	a, mem := running(t)
	var maps, files, goroutines int
	for i := range rounds {
		a.Grant(1, wire.Life{2}, []agent.Desc{{Length: size / 2}})
		cmd, _ := spawn(t, a)
		await[agent.PeerUp](t, a)
		await[agent.Notice](t, a)
		a.Write(one(0))
		must(t, cmd.Process.Kill())
		await[agent.PeerLost](t, a)
		a.Revoke(1)
		await[agent.Revoked](t, a)
		mem[0], mem[size/2-1] = byte(i), byte(i)
		_ = cmd.Wait() // it was killed
		if mem[0] != byte(i) || mem[size/2-1] != byte(i) {
			t.Fatalf("round %d: a byte landed late", i)
		}
		if i == 4 {
			maps, files, goroutines = held(t)
		}
	}
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		m, f, g := held(t)
		if m <= maps && f <= files && g <= goroutines {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %d rounds %d mappings, %d descriptors, %d goroutines; after 5 %d, %d, %d", rounds, m, f, g, maps, files, goroutines)
		}
	}
}
