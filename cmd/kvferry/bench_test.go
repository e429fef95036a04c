package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseRate(t *testing.T) {
	for s, want := range map[string]int64{
		"500MB": 5e8, "1.5 GB/s": 15e8, "10Gbit": 125e7, "8Mbit/s": 1e6, "2kB": 2000,
	} {
		if got, err := parseRate(s); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "500", "MB", "-1MB", "0MB", "NaNMB", "InfGB", "1e9GB", "5mb"} {
		if got, err := parseRate(s); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

// TestBenchPipelineCommand: the command measures, prints a table, draws, and says how far it
// is elsewhere than in the table.
//
// req: PIPE-27
func TestBenchPipelineCommand(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "plot.svg")
	cmd := benchCommand()
	var out, said bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&said)
	cmd.SetArgs([]string{
		"pipeline", "--model=emulated:test", "--prompt-tokens=128", "--chunks=1,2", "--rounds=1",
		"--bandwidth=20MB", "--plot=" + plot,
	})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "20 MB/s"); n != 6 {
		t.Errorf("%d rows in\n%s", n, &out)
	}
	if !strings.Contains(said.String(), "round 1 of 1") || strings.Contains(out.String(), "round") {
		t.Errorf("progress: %q", &said)
	}
	svg, err := os.ReadFile(plot)
	if err != nil {
		t.Fatal(err)
	}
	var any struct{ XMLName xml.Name }
	if err := xml.Unmarshal(svg, &any); err != nil || any.XMLName.Local != "svg" {
		t.Errorf("plot: %v", err)
	}
}
