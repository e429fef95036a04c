package load

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	chaosRequests = flag.Int("chaos.requests", 240, "requests of the chaos test")
	chaosEvery    = flag.Duration("chaos.every", 700*time.Millisecond, "time between two kills of the chaos test")
	chaosModel    = flag.String("chaos.model", "emulated:test-window", "model of the chaos test")
)

// TestChaos: 32 clients on two prefill and two decode engines in processes of their own, one
// of which is killed again and again, while other clients hang up in the middle of what they
// asked. No answer is wrong, every failure says what failed, and afterwards every engine is
// there again and holds nothing.
//
// req: PIPE-28
// req: SERVE-04
// case: 05
// case: 09
func TestChaos(t *testing.T) {
	right := start(t, "serve", "--model="+*chaosModel, "--chunk-tokens=512")
	url := start(t, "up", "--model="+*chaosModel, "--prefill=2", "--decode=2", "--chunk-tokens=96", "--log-level=error")
	o := DefaultOptions()
	o.URL, o.Check, o.Requests, o.Concurrency = url, right, *chaosRequests, 32
	o.PromptTokens, o.OutputTokens = Range{1, 400}, Range{1, 60}
	o.Temperature, o.Seed = 0.7, 5
	o.Timeout = 30 * time.Second

	ctx, calm := context.WithCancel(t.Context())
	defer calm()
	var ended atomic.Int64
	o.Done = func() {
		if ended.Add(1) == int64(o.Requests) {
			calm()
		}
	}
	kills, hangups := 0, 0
	var trouble sync.WaitGroup
	trouble.Go(func() { kills = killing(ctx, t, url) })
	trouble.Go(func() { hangups = hangingUp(ctx, o) })
	rep := run(t, o)
	trouble.Wait()

	t.Logf("%d kills and %d hang-ups in %.1f s: %d answered, %d failed, %d checked",
		kills, hangups, rep.Seconds, rep.Answered, rep.Failed, rep.Check.Right)
	for _, e := range rep.Errors {
		t.Logf("%d x %s, as: %s", e.Count, e.Kind, e.Example)
		if !e.Clear {
			t.Errorf("%d failures were not clear: %s, as: %s", e.Count, e.Kind, e.Example)
		}
	}
	if c := rep.Check; c.Wrong > 0 || c.Unchecked > 0 || c.Right < rep.Answered {
		t.Errorf("%+v", c)
	}
	if rep.Answered+rep.Failed != o.Requests || rep.Answered < o.Requests/2 {
		t.Errorf("%d answered and %d failed of %d", rep.Answered, rep.Failed, o.Requests)
	}
	if kills < 2 || hangups < 2 || rep.Failed == 0 {
		t.Error("there was no trouble to speak of")
	}
	await(t, 20*time.Second, "every engine is back and idle", func() error { return baseline(t.Context(), url) })
}

// cluster is what the router tells of its engines at /debug/state.
type cluster struct {
	Requests struct{ Running int }
	Engines  []struct {
		Role  string
		PID   int
		Ready bool
		State *struct {
			Pool     struct{ Total, Free int }
			Requests struct{ Running, Waiting int }
			Sessions struct{ Send, Receive, Pull int }
			Leases   int
			Parked   int
		}
	}
}

func look(ctx context.Context, url string) (c cluster, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/debug/state", nil)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// killing kills an engine at every tick, a ready one by chance, and counts.
func killing(ctx context.Context, t *testing.T, url string) (kills int) {
	tick := time.NewTicker(*chaosEvery)
	defer tick.Stop()
	chance := rand.New(rand.NewPCG(1, 1))
	for {
		select {
		case <-ctx.Done():
			return kills
		case <-tick.C:
		}
		c, err := look(ctx, url)
		if err != nil {
			continue // the load is through
		}
		e := c.Engines[chance.IntN(len(c.Engines))]
		if e.Ready && syscall.Kill(e.PID, syscall.SIGKILL) == nil {
			t.Logf("killed a %s engine, process %d", e.Role, e.PID)
			kills++
		}
	}
}

// hangingUp asks and leaves after up to 100 ms, and counts how often.
func hangingUp(ctx context.Context, o Options) (hangups int) {
	chance := rand.New(rand.NewPCG(2, 2))
	s := newServer(o.URL)
	defer s.close()
	if s.choose(ctx, "") != nil {
		return 0
	}
	for i := 0; ctx.Err() == nil; i++ {
		short, cancel := context.WithTimeout(ctx, time.Duration(1+chance.IntN(100))*time.Millisecond)
		if a := s.stream(short, o.question(1<<20+i)); a.failure != nil && short.Err() != nil {
			hangups++
		}
		<-short.Done() // whatever came of it, no more than so many a second
		cancel()
	}
	return hangups
}

// baseline says what is held although nobody asks for anything.
func baseline(ctx context.Context, url string) error {
	c, err := look(ctx, url)
	if err != nil {
		return err
	}
	if c.Requests.Running > 0 || len(c.Engines) != 4 {
		return fmt.Errorf("%d requests run on %d engines", c.Requests.Running, len(c.Engines))
	}
	for _, e := range c.Engines {
		s := e.State
		switch {
		case !e.Ready || s == nil:
			return fmt.Errorf("a %s engine is not there", e.Role)
		case s.Pool.Free != s.Pool.Total || s.Pool.Total == 0,
			s.Requests.Running+s.Requests.Waiting+s.Sessions.Send+s.Sessions.Receive+s.Sessions.Pull+s.Leases+s.Parked > 0:
			return fmt.Errorf("a %s engine holds %+v", e.Role, *s)
		}
	}
	return nil
}

// TestCommand: the command itself, on a server whose answers are wrong for one prompt of two:
// they are shown, and the exit status says so.
func TestCommand(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	wrong := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		tell(w, a, strings.ReplaceAll(string(a.Prompt), `"`, "")+" and on")
	})
	right := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		tell(w, a, strings.ReplaceAll(strings.ReplaceAll(string(a.Prompt), `"`, ""), "7", "8")+" and on")
	})
	for prompts, want := range map[string]int{"a5\nb6\n": 0, "a5\nb7\n": 1} {
		file := t.TempDir() + "/prompts"
		if err := os.WriteFile(file, []byte(prompts), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), path, "bench", "serve", "--url="+wrong, "--check="+right, "--requests=6",
			"--prompts="+file, "--json")
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: exit status %d (%v), want %d: %s", prompts, got, err, want, &said)
		}
		var rep Report
		if err := json.NewDecoder(&out).Decode(&rep); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if rep.Answered != 6 || rep.Check == nil || rep.Check.Wrong != 3*want || rep.Check.Right != 6-3*want {
			t.Errorf("%q: %+v, check %+v", prompts, rep, rep.Check)
		}
		if !strings.Contains(said.String(), "6 of 6 answers checked") {
			t.Errorf("no progress in %q", &said)
		}
	}
}
