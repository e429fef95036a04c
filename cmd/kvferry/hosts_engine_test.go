//go:build linux

package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/wire"
)

// faultyEngine is set where the test binary is an engine behind a bad link: to a badLink.
const faultyEngine = "KVFERRY_TEST_FAULTY_ENGINE"

// badLink is an engine, and the link that it has for its life.
type badLink struct {
	Role                engine.Role
	Listen, AgentListen string
	Timeout             time.Duration
	// Rate is in bytes a second. Delay is how long each transfer and each notice takes besides.
	Rate  int64
	Delay time.Duration
}

// command is what a test tells the engine, a line of JSON on its standard input; each is
// answered by a line.
type command struct {
	// Now, if set, is to be done at once: drop, stall or resume.
	Now string
	// Action befalls the Nth operation of the kind from now on.
	Kind   fault.Kind
	Nth    int
	Action fault.Action
	// Odds, if set, befall all of them.
	Odds *fault.Odds
	Seed uint64
}

// What the engine says.
const (
	obeyed = "obeyed"
	struck = "struck" // an action befell an operation
)

// faulty is the decorator of an engine, and what it is told to do.
type faulty struct {
	link  badLink
	agent *fault.Agent

	mu     sync.Mutex
	script fault.Script
	seen   map[fault.Kind]int // operations since the script was given
	peer   wire.Life          // of the last operation
}

func (f *faulty) wrap(inner agent.Agent) agent.Agent {
	f.agent = fault.New(inner, fault.Options{Rate: f.link.Rate, Delay: f.link.Delay, Script: f.decide})
	return f.agent
}

// decide is the script of all scripts.
func (f *faulty) decide(o fault.Op) fault.Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peer = o.Peer
	var act fault.Action
	if f.script != nil {
		f.seen[o.Kind]++
		o.Nth = f.seen[o.Kind]
		act = f.script(o)
		if act != (fault.Action{}) {
			fmt.Println(struck)
		}
	}
	if o.Kind == fault.Notify {
		act.Delay += f.link.Delay
	}
	return act
}

func (f *faulty) obey(c command) {
	switch c.Now {
	case "drop":
		f.mu.Lock()
		peer := f.peer
		f.mu.Unlock()
		f.agent.Drop(peer, errors.New("the test drops the peer"))
	case "stall":
		f.agent.Stall()
	case "resume":
		f.agent.Resume()
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen = map[fault.Kind]int{}
		f.script = fault.Nth(c.Kind, c.Nth, c.Action)
		if c.Odds != nil {
			f.script = fault.Seeded(c.Seed, *c.Odds)
		}
	}
}

// serveFaulty is the engine's process. It ends with its standard input, too.
func serveFaulty(orders string) int {
	f := &faulty{}
	if err := json.Unmarshal([]byte(orders), &f.link); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cfg := e2etest.Config()
	cfg.Role, cfg.Listen, cfg.AgentListen, cfg.TransferTimeout = f.link.Role, f.link.Listen, f.link.AgentListen, f.link.Timeout
	cfg.Pipelined, cfg.ChunkedPrefill, cfg.ChunkTokens = f.link.Role == engine.Prefill, true, 96
	cfg.WrapAgent, cfg.Log = f.wrap, slog.New(slog.NewTextHandler(os.Stderr, nil))
	e, err := node.StartEngine(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Printf("%shttp://%s\n", node.ReadyPrefix, e.Addr())
	go func() {
		defer stop()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var c command
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			f.obey(c)
			fmt.Println(obeyed)
		}
	}()
	<-ctx.Done()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	e.Stop(now)
	return 0
}

// faultyProcess is such an engine, as the test has it.
type faultyProcess struct {
	*process
	orders io.Writer
	told   int // how often
}

// beginFaulty starts an engine behind a bad link on a host.
func beginFaulty(t *testing.T, host string, link badLink) *faultyProcess {
	t.Helper()
	b, err := json.Marshal(link)
	if err != nil {
		t.Fatal(err)
	}
	cmd := on(host, os.Args[0])
	cmd.Env = append(os.Environ(), faultyEngine+"="+string(b))
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return &faultyProcess{process: begin(t, cmd), orders: orders}
}

// tell tells the engine what to do and waits until it obeys.
func (p *faultyProcess) tell(t *testing.T, c command) {
	t.Helper()
	if err := json.NewEncoder(p.orders).Encode(c); err != nil {
		t.Fatal(err)
	}
	p.told++
	e2etest.Await(t, waitLong, "the engine obeys", func() error {
		if n := p.said(obeyed); n < p.told {
			return fmt.Errorf("it did %d times of %d", n, p.told)
		}
		return nil
	})
}

// said is how often the engine has said something.
func (p *faultyProcess) said(what string) int { return strings.Count(p.out.String(), what+"\n") }
