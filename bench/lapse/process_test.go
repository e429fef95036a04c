package lapse_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// child is set where the test binary is an engine: to a spec.
const child = "KVFERRY_TEST_LAPSE"

// spec is an engine in a process of its own.
type spec struct {
	Role     engine.Role
	Model    string
	Blocks   int
	Lease    time.Duration
	Verify   bool
	Policy   string
	MaxChunk int
}

func TestMain(m *testing.M) {
	if s := os.Getenv(child); s != "" {
		os.Exit(serve(s))
	}
	os.Exit(m.Run())
}

// serve is the engine's process. It ends with its standard input, on which orders come.
func serve(s string) int {
	var sp spec
	if err := json.Unmarshal([]byte(s), &sp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var say sync.Mutex
	out := func(what string) {
		say.Lock()
		defer say.Unlock()
		fmt.Println(what)
	}
	var h *holder
	cfg := e2etest.Config()
	cfg.Role, cfg.Model, cfg.KVBlocks, cfg.Pipelined, cfg.PoisonFreed = sp.Role, sp.Model, sp.Blocks, false, false
	cfg.LeaseDuration, cfg.LeaseVerification, cfg.LoadFailurePolicy = sp.Lease, sp.Verify, sp.Policy
	cfg.TurnTTL, cfg.TransferTimeout = 0, time.Minute
	cfg.ChunkedPrefill, cfg.ChunkTokens = true, sp.MaxChunk
	if sp.Role == engine.Decode {
		cfg.WrapAgent = func(a agent.Agent) agent.Agent {
			h = hold(a, out)
			return h
		}
	}
	e, err := node.StartEngine(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out(node.ReadyPrefix + "http://" + e.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "go" {
			h.resume <- struct{}{}
			continue
		}
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		h.set(o)
		out("obeyed")
	}
	return 0
}

// process is such an engine, as the test has it.
type process struct {
	*e2etest.Client
	in    io.Writer
	lines chan string
}

func start(t testing.TB, s spec) *process {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), child+"="+string(b)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{in: in, lines: make(chan string, 64)}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // it ends as its input does
	})
	go func() {
		defer close(p.lines)
		for l := bufio.NewScanner(out); l.Scan(); {
			p.lines <- l.Text()
		}
	}()
	url, ok := strings.CutPrefix(<-p.lines, node.ReadyPrefix)
	if !ok {
		t.Fatal("the engine did not start")
	}
	name, _, _ := strings.Cut(s.Model, ",")
	name, _, _ = strings.Cut(name, "@")
	p.Client = e2etest.NewClient(url, name)
	t.Cleanup(p.Close)
	return p
}

func (p *process) tell(t testing.TB, line string) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Error(err)
	}
}

func (p *process) order(t testing.TB, o order) {
	b, err := json.Marshal(o)
	if err != nil {
		t.Error(err)
	}
	p.tell(t, string(b))
	p.await(t, "obeyed")
}

// await reads what the engine says until it says that, and gives the rest of that line.
func (p *process) await(t testing.TB, what string) string {
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		select {
		case l, open := <-p.lines:
			if rest, ok := strings.CutPrefix(l, what); ok {
				return rest
			}
			if !open {
				t.Errorf("the engine ended before it said %q", what)
				return ""
			}
		case <-late.C:
			t.Errorf("the engine did not say %q", what)
			return ""
		}
	}
}
