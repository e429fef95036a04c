package tcp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// childEnv makes this test's binary the peer process: its value is the address to dial.
const childEnv = "KVFERRY_TEST_PEER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		os.Exit(child(addr))
	}
	os.Exit(m.Run())
}

// child connects, lets life 1 write into all of its memory, writes into life 1's memory all
// the time, and ends when life 1 is lost.
func child(addr string) int {
	a, mem := tcp.New(childOptions), make([]byte, size)
	for i := range mem {
		mem[i] = 0xCC
	}
	if _, err := a.Register(mem); err != nil {
		return 2
	}
	if err := a.Start(hello(2)); err != nil {
		return 3
	}
	a.Grant(1, wire.Life{1}, []agent.Desc{{Length: size}})
	a.Connect(addr)
	id := uint64(0)
	push := func() {
		id++
		a.Write(transfer(id, 1, size, "chunk"))
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
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := a.Close(ctx); err != nil {
				return 4
			}
			return 0
		}
	}
	return 5
}

var childOptions = tcp.Options{
	Ping: 50 * time.Millisecond, DeadAfter: time.Second, Log: quietLog,
}

// A peer process that is killed, or stopped, while it writes into our memory and we into
// its: every transfer ends in bounded time, the blocks are ours again then, and when a
// stopped one goes on no late byte lands in them.
//
// case: 05
// req: PIPE-32
func TestPeerProcessDies(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			a, mem := running(t, childOptions)
			a.Grant(1, wire.Life{2}, []agent.Desc{{Length: size}})
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+a.Addr())
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended already where all went well
			await[agent.PeerUp](t, a)
			await[agent.Notice](t, a)
			for id := range uint64(8) {
				a.Write(transfer(id, 2, size, ""))
			}
			must(t, cmd.Process.Signal(sig))
			begin := time.Now()
			for range 8 {
				if d := await[agent.Done](t, a); d.Err != nil && !errors.Is(d.Err, agent.ErrPeerLost) {
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
				line, err := bufio.NewReader(out).ReadString('\n')
				if err != nil {
					t.Errorf("the stopped peer does not find out: %q, %v", line, err)
				}
				must(t, cmd.Wait())
			} else if err := cmd.Wait(); err == nil {
				t.Error("a killed process ended well")
			}
			if !bytes.Equal(mem, after) {
				t.Error("a byte landed late")
			}
		})
	}
}
