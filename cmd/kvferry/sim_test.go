package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runSim runs the command and gives what it prints on stdout and stderr.
func runSim(args ...string) (string, string, error) {
	cmd := simCommand()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), progress.String(), err
}

func TestSimSeeds(t *testing.T) {
	out, progress, err := runSim("--seeds", "500", "--seed", "7", "--nodes", "2,1", "--faults", "crash,cancel")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"seeds        500 in", "violations   0", "transitions"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if !strings.Contains(progress, "500 of 500 seeds, 0 failed") {
		t.Errorf("progress is %q", progress)
	}
}

func TestSimMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"--faults", "fire"},
		{"--nodes", "2"},
		{"--nodes", "2,17"},
		{"--script", "/does/not/exist"},
		{"more"},
	} {
		if _, _, err := runSim(args...); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// A script that breaks an invariant (here a peer that lies about its blocks) prints what happens
// up to there, writes its trace, and fails.
func TestSimScript(t *testing.T) {
	dir := t.TempDir()
	script, trace := filepath.Join(dir, "script"), filepath.Join(dir, "trace.json")
	if err := os.WriteFile(script, []byte(`
cluster prefill=1 decode=1 tpb=4 windows=0 layers=1 heads=1 pblocks=20 dblocks=20 seqs=4 queue=8 chunk=4 pipelined=yes
cluster fencing=yes timeout=100ms dead=50ms latency=1ms lanes=1 block=1ms pass=2ms
request prompt=12 max=2 ignore-eos=yes on=p0,d0
fault corrupt on=r1/register:1 field=swap
`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := runSim("--script", script, "--trace", trace)
	if err == nil || !strings.Contains(err.Error(), "right bytes") || !strings.Contains(out, "VIOLATION right bytes") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ TraceEvents []any }
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.TraceEvents) == 0 {
		t.Errorf("%d trace events, %v", len(doc.TraceEvents), err)
	}
}
