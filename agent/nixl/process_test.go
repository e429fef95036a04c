//go:build linux && (amd64 || arm64) && nixl

package nixl_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/agent/nixl"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// childEnv makes this test's binary the peer process: its value is the address to dial.
const childEnv = "KVFERRY_TEST_PEER"

const (
	size     = 32 << 20
	piece    = 64 << 10
	patience = 20 * time.Second
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		os.Exit(child(addr))
	}
	os.Exit(m.Run())
}

func list() agent.List {
	l := make(agent.List, size/piece)
	for i := range l {
		l[i] = agent.Desc{Offset: uint64(i) * piece, Length: piece}
	}
	return l
}

var whole = list()

// transfer moves everything, from block i to block i.
func transfer(id uint64, peer byte, notice string) agent.Transfer {
	idx := make([]int32, len(whole))
	for i := range idx {
		idx[i] = int32(i)
	}
	t := agent.Transfer{ID: id, Peer: wire.Life{peer}, Local: whole, LocalIdx: idx, Remote: whole, RemoteIdx: idx, Epoch: 1}
	if notice != "" {
		t.Notice = []byte(notice)
	}
	return t
}

func start(life byte) (agent.Agent, []byte, error) {
	quiet := slog.New(slog.DiscardHandler)
	a, err := nixl.New(nixl.Options{
		Log: quiet, Control: tcp.New(tcp.Options{Ping: 50 * time.Millisecond, DeadAfter: time.Second, Log: quiet}),
	})
	if err != nil {
		return nil, nil, err
	}
	m, err := memory.Map("nixl-test", size)
	if err != nil {
		return nil, nil, err
	}
	if _, err := a.Register(m.Bytes()); err != nil {
		return nil, nil, err
	}
	hello := wire.Hello{Life: wire.Life{life}, Role: "decode", Identity: wire.Identity{Version: wire.Version}}
	return a, m.Bytes(), a.Start(hello)
}

func stop(a agent.Agent) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.Close(ctx)
}

// child writes into life 1's memory all the time, and ends when life 1 is lost.
func child(addr string) int {
	a, mem, err := start(2)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	for i := range mem {
		mem[i] = 0xCC
	}
	a.Connect(addr)
	id := uint64(0)
	push := func() {
		id++
		a.Write(transfer(id, 1, "chunk"))
	}
	for e := range a.Events() {
		switch e := e.(type) {
		case agent.PeerUp:
			push()
			push()
		case agent.Done:
			push()
		case agent.PeerLost, agent.ConnectFailed:
			fmt.Println(e)
			if err := stop(a); err != nil {
				return 4
			}
			return 0
		}
	}
	return 5
}

// await waits for an event of a type; others are passed over.
func await[E agent.Event](t *testing.T, a agent.Agent) E {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e := <-a.Events():
			if e, ok := e.(E); ok {
				return e
			}
		case <-timeout.C:
			var e E
			t.Fatalf("no %T comes", e)
		}
	}
}

// A peer process that is killed, or stopped, while it writes into our memory and we into
// its: every transfer ends in bounded time, and after PeerLost no late byte lands, even if a
// stopped one goes on.
//
// case: 05
func TestPeerProcessDies(t *testing.T) {
	if os.Getenv(nixl.Variable) == "" {
		t.Skip(nixl.Variable + " is not set")
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			a, mem, err := start(1)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+a.Addr())
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended already where all went well
			await[agent.PeerUp](t, a)
			await[agent.Notice](t, a)
			for id := range uint64(8) {
				a.Write(transfer(id, 2, ""))
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for range 8 {
				if d := await[agent.Done](t, a); d.Err != nil && !errors.Is(d.Err, agent.ErrPeerLost) {
					t.Error(d.Err)
				}
			}
			await[agent.PeerLost](t, a)
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("it took %v", d)
			} else {
				t.Logf("%v until the peer is lost", d)
			}
			after := bytes.Repeat([]byte{7}, size)
			copy(mem, after)
			if sig == syscall.SIGSTOP {
				if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				line, err := bufio.NewReader(out).ReadString('\n')
				t.Log(line)
				if err != nil {
					t.Errorf("the stopped peer does not find out: %q, %v", line, err)
				}
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			} else if err := cmd.Wait(); err == nil {
				t.Error("a killed process ended well")
			}
			if !bytes.Equal(mem, after) {
				t.Error("a byte landed late")
			}
			if err := stop(a); err != nil {
				t.Error(err)
			}
		})
	}
}
