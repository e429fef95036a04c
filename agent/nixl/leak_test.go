//go:build linux && (amd64 || arm64) && nixl

package nixl_test

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"kvferry/agent"
	"kvferry/agent/nixl"
)

// kept is what a process holds: descriptors, mappings, threads and goroutines.
type kept struct{ files, mappings, threads, goroutines int }

func holds(t *testing.T) kept {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return kept{len(files), bytes.Count(maps, []byte("\n")), len(threads), runtime.NumGoroutine()}
}

// Peers that are killed in the middle of writes, one after the other, leave nothing with us. What NIXL
// and the system keep once they have been used is there after the first rounds.
//
// case: 05
func TestKilledPeersLeaveNothing(t *testing.T) {
	if os.Getenv(nixl.Variable) == "" {
		t.Skip(nixl.Variable + " is not set")
	}
	a, _, err := start(1)
	if err != nil {
		t.Fatal(err)
	}
	const rounds, warm = 16, 6
	var before kept
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+a.Addr())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await[agent.Notice](t, a)
		a.Write(transfer(uint64(round), 2, ""))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		await[agent.PeerLost](t, a)
		if err := cmd.Wait(); err == nil {
			t.Fatal("a killed process ended well")
		}
		if round == warm {
			before = holds(t)
		}
	}
	after := holds(t)
	const slack = 3 // of what the Go runtime does by itself
	if after.files > before.files+slack || after.threads > before.threads+slack || after.goroutines > before.goroutines+slack || after.mappings > before.mappings+rounds-warm {
		t.Errorf("after %d rounds %+v, after %d %+v", warm, before, rounds, after)
	}
	t.Logf("after %d rounds %+v, after %d %+v", warm, before, rounds, after)
	if err := stop(a); err != nil {
		t.Error(err)
	}
}
