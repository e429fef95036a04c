package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kvferry/node"
	"kvferry/node/e2etest"
)

// binary is the program under test, built once, with the race detector if the tests have it.
var binary string

// aggregated gives the answers that every process must give.
var aggregated e2etest.References

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if orders := os.Getenv(faultyEngine); orders != "" {
		return serveFaulty(orders)
	}
	dir, err := os.MkdirTemp("", "kvferry")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "kvferry")
	args := []string{"build", "-o", binary}
	if e2etest.Race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	// Processes that tests start by themselves are one deployment.
	os.Setenv(node.TokenVariable, "of-the-tests")
	code := m.Run()
	if err := aggregated.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// text is what a process wrote so far.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// process is a kvferry process that a test started.
type process struct {
	cmd      *exec.Cmd
	out, err text
	ended    chan struct{}
}

// waitLong is for what takes as long as a busy machine makes it.
const waitLong = time.Minute

// launch starts kvferry. When the test ends it must have ended, or end when it is told to,
// and no process may have met a data race or a panic.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return begin(t, exec.Command(binary, args...))
}

// begin starts kvferry by a command of the test's.
func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	// A child that outlives its parent has its standard error: it is not waited for.
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its status is looked at by those who want it
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		p.end(t)
		log := p.err.String()
		if strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
			t.Errorf("%s:\n%s", cmd, log)
		} else if t.Failed() {
			t.Logf("%s wrote:\n%s", cmd, log)
		}
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(p.pid(), s) }

// ready waits for the ready line and gives the URL in it.
func (p *process) ready(t *testing.T) string {
	t.Helper()
	var url string
	e2etest.Await(t, waitLong, "kvferry is ready", func() error {
		select {
		case <-p.ended:
			t.Fatalf("kvferry ended before it was ready:\n%s", p.err.String())
		default:
		}
		line, _, whole := strings.Cut(p.out.String(), "\n")
		if !whole {
			return errors.New("no line on standard output")
		}
		var ok bool
		if url, ok = strings.CutPrefix(line, node.ReadyPrefix); !ok {
			t.Fatalf("the first line is %q", line)
		}
		return nil
	})
	return url
}

// says waits until standard error has text that fits the pattern.
func (p *process) says(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	e2etest.Await(t, waitLong, fmt.Sprintf("kvferry says %q", pattern), func() error {
		if s := p.err.String(); !re.MatchString(s) {
			return fmt.Errorf("it said %q", s)
		}
		return nil
	})
}

// end waits for the end and gives the exit status, -1 for a process that was killed.
func (p *process) end(t *testing.T) int {
	t.Helper()
	late := time.NewTimer(40 * time.Second)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
		t.Errorf("kvferry had to be killed")
	}
	return p.cmd.ProcessState.ExitCode()
}

// alive says whether a process runs; one that ended and was not waited for does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // there is no such file here, or not any more, which the next call sees
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// awaitGone waits until processes have ended.
func awaitGone(t *testing.T, limit time.Duration, pids ...int) {
	t.Helper()
	e2etest.Await(t, limit, "the processes have ended", func() error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("process %d runs", pid)
			}
		}
		return nil
	})
}
