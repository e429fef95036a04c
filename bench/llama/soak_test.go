//go:build linux && amd64 && llamacpp

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kvferry/bench/load"
	"kvferry/node/e2etest"
	"kvferry/runner/reference/reftest"
)

var (
	soakFor   = flag.Duration("soak", 0, "how long the soak takes, as 15m; 0 takes 8s with a small model")
	soakKill  = flag.Duration("soak.kill", time.Minute, "time between two kills")
	soakStyle = flag.String("soak.style", "generation_first", "schedule style: generation_first, or context_first with its leases")
	soakJSON  = flag.String("soak.json", "", "write all samples and the summary into this `file`")
)

// soak is one run: how long everything goes on, and what came of it.
type soak struct {
	Model    string        `json:"model"`
	Style    string        `json:"schedule_style"`
	Duration time.Duration `json:"duration_ns"`
	Kills    int           `json:"kills"`
	Hangups  int           `json:"hangups"`
	Load     *load.Report  `json:"load"`
	// Before and After are at rest, Samples of the time between.
	Before  sample   `json:"before"`
	After   sample   `json:"after"`
	Samples []sample `json:"samples"`

	every, kill time.Duration // between samples, and kills
	patience    time.Duration // of clients who leave, at most
	url         string
	up          int // PID
}

// TestSoak: two prefill and two decode engines with llama.cpp are asked for prompts of all lengths,
// by clients some of whom leave, while one of two engines is killed every minute. Memory, open files
// and goroutines of the processes that live through it stay where they are, each failure says what
// failed, and in the end nobody holds anything. Without -soak it is a few seconds of that, with
// a small model, in which memory cannot settle and is not compared.
//
// req: SERVE-04, SERVE-05
func TestSoak(t *testing.T) {
	needLlama(t)
	s := &soak{Style: *soakStyle, Duration: *soakFor, every: 3 * time.Second, kill: *soakKill, patience: 2 * time.Second}
	if s.Duration > 0 {
		s.Model = os.Getenv("KVFERRY_LLAMA_MODEL")
		if s.Model == "" {
			t.Fatal("KVFERRY_LLAMA_MODEL is not set: runner/llamacpp/testdata/fetch-model.sh fetches the model")
		}
	} else {
		s.Model = e2etest.RandomModel(t, "random", reftest.ModelOptions{Layers: 3, KVHeads: 2, Context: 1024})
		s.Duration, s.every, s.kill, s.patience = 8*time.Second, 500*time.Millisecond, 2*time.Second, 100*time.Millisecond
	}
	s.url, s.up = startUp(t, "--engine=llamacpp", "--model="+s.Model, "--prefill=2", "--decode=2", "--context=1024",
		"--chunk-tokens=128", "--kv-blocks=192", "--decoder-kv-blocks-ttl=5s", "--kv-lease-duration=5s",
		"--schedule-style="+s.Style)
	s.Before = s.atRest(t)
	s.run(t)
	s.After = s.atRest(t)
	s.write(t)
	s.judge(t)
}

// run has everything go on until the time is over.
func (s *soak) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), s.Duration)
	defer cancel()
	o := load.DefaultOptions()
	o.URL, o.Requests, o.Duration, o.Concurrency = s.url, 0, s.Duration, 4
	o.PromptTokens, o.OutputTokens, o.Seed = load.Range{Min: 5, Max: 700}, load.Range{Min: 1, Max: 64}, 1
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if s.Load, err = load.Run(t.Context(), t.Context(), o); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() { s.killing(ctx, t) })
	wg.Go(func() { s.hangingUp(ctx) })
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if got, err := s.look(t.Context()); err == nil { // an engine may be on its way back
				s.Samples = append(s.Samples, got)
			}
		}
	}
	wg.Wait()
}

// killing kills the second engine of one role and of the other in turn: the first ones live through
// all of it.
func (s *soak) killing(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(s.kill)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		victim := []string{"prefill-1", "decode-1"}[s.Kills%2]
		c, err := s.state(ctx)
		if err != nil {
			continue
		}
		for name, e := range c.named() {
			if name == victim && e.Ready && syscall.Kill(e.PID, syscall.SIGKILL) == nil {
				t.Logf("killed %s, process %d", name, e.PID)
				s.Kills++
			}
		}
	}
}

// hangingUp asks, leaves when its patience is at an end, and does so again.
func (s *soak) hangingUp(ctx context.Context) {
	chance := rand.New(rand.NewPCG(2, 2))
	name := modelName(s.Model)
	for n := uint64(1 << 40); ctx.Err() == nil; n++ {
		body, _ := json.Marshal(map[string]any{
			"model": name, "prompt": printable(n, 1+chance.IntN(700)), "max_tokens": 64, "ignore_eos": true, "stream": true, "temperature": 0,
		})
		short, cancel := context.WithTimeout(ctx, time.Duration(1+chance.Int64N(int64(s.patience))))
		if post(short, s.url+"/v1/completions", body) != nil && short.Err() != nil {
			s.Hangups++
		}
		<-short.Done() // whatever came of it, no more often than that
		cancel()
	}
}

func post(ctx context.Context, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for buf := make([]byte, 4096); ; {
		if _, err := resp.Body.Read(buf); err != nil {
			return err
		}
	}
}

// write keeps all that was seen.
func (s *soak) write(t *testing.T) {
	if *soakJSON == "" {
		return
	}
	b, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = os.WriteFile(*soakJSON, b, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// lifelong are the processes that nobody kills.
var lifelong = []string{"up", "router", "prefill-0", "decode-0"}

// judge compares the last third of the time with the middle one, and what is there at rest.
func (s *soak) judge(t *testing.T) {
	if s.Load != nil {
		t.Logf("%s for %s: %d answered and %d failed, %d kills, %d hang-ups, %d samples", modelName(s.Model), s.Duration,
			s.Load.Answered, s.Load.Failed, s.Kills, s.Hangups, len(s.Samples))
		for _, e := range s.Load.Errors {
			t.Logf("%d x %s, as: %s", e.Count, e.Kind, e.Example)
			if !e.Clear {
				t.Errorf("failures were not clear: %s, as: %s", e.Kind, e.Example)
			}
		}
		if s.Load.Answered < 2*s.Load.Failed || s.Load.Answered == 0 {
			t.Errorf("%d were answered and %d failed", s.Load.Answered, s.Load.Failed)
		}
	}
	if s.Kills == 0 || s.Hangups == 0 || len(s.Samples) < 6 {
		t.Errorf("%d kills, %d hang-ups, %d samples: there was no soak to speak of", s.Kills, s.Hangups, len(s.Samples))
		return
	}
	for _, name := range lifelong {
		before, after := s.Before.Processes[name], s.After.Processes[name]
		middle, last := s.third(name, 1), s.third(name, 2)
		t.Logf("%-9s own memory %.1f MB before, median %.1f in the middle third, %.1f in the last one, %.1f after; with pools and peers' %.1f, %.1f, %.1f, %.1f; files %d, %d, %d, %d; goroutines %d, %d, %d, %d",
			name, mb(before.Own), mb(middle.Own), mb(last.Own), mb(after.Own), mb(before.RSS), mb(middle.RSS), mb(last.RSS), mb(after.RSS), before.Files, middle.Files, last.Files, after.Files,
			before.Goroutines, middle.Goroutines, last.Goroutines, after.Goroutines)
		if before.PID != after.PID || before.PID == 0 {
			t.Errorf("%s was process %d and is %d", name, before.PID, after.PID)
		}
		// It may fall: what was garbage goes back to the system when it does.
		if change := mb(last.Own)/mb(middle.Own) - 1; s.Duration >= 5*time.Minute && change > 0.05 {
			t.Errorf("%s: memory grew by %.1f %%", name, 100*change)
		}
		if most := s.most(name, 1); s.Duration >= 5*time.Minute && s.most(name, 2) > most+most/20 {
			t.Errorf("%s: shared memory grew from %.1f to %.1f MB", name, mb(most), mb(s.most(name, 2)))
		}
		// A connection or two may be kept open for a next request, and each is some goroutines.
		if after.Files > before.Files+32 || after.Goroutines > before.Goroutines+64 {
			t.Errorf("%s has %d files and %d goroutines at rest, and had %d and %d", name, after.Files, after.Goroutines, before.Files, before.Goroutines)
		}
	}
}

// third is the medians of a process in a third of the samples.
func (s *soak) third(name string, which int) proc {
	n := len(s.Samples)
	var out [4][]int
	for _, x := range s.Samples[which*n/3 : (which+1)*n/3] {
		p := x.Processes[name]
		out[0], out[1], out[2], out[3] = append(out[0], p.RSS), append(out[1], p.Files), append(out[2], p.Goroutines), append(out[3], p.Own)
	}
	for i := range out {
		slices.Sort(out[i])
	}
	mid := len(out[0]) / 2
	return proc{RSS: out[0][mid], Files: out[1][mid], Goroutines: out[2][mid], Own: out[3][mid]}
}

// most is the most memory that a process shared with others in a third of the samples.
func (s *soak) most(name string, which int) int {
	n, most := len(s.Samples), 0
	for _, x := range s.Samples[which*n/3 : (which+1)*n/3] {
		most = max(most, x.Processes[name].Shared)
	}
	return most
}

// atRest waits until every engine is there and holds nothing, and looks.
func (s *soak) atRest(t *testing.T) sample {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	late, again := time.NewTimer(2*time.Minute), time.NewTicker(200*time.Millisecond)
	defer late.Stop()
	defer again.Stop()
	for {
		got, err := s.look(t.Context())
		if err == nil {
			err = got.Held.rest()
		}
		if err == nil {
			return got
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("not at rest for two minutes: %v", err)
		}
	}
}

// rest says what is held.
func (h held) rest() error {
	if h != (held{Blocks: h.Blocks, Free: h.Blocks}) || h.Blocks == 0 {
		return fmt.Errorf("they hold %+v", h)
	}
	return nil
}
