package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"kvferry/bench/pipeline"
)

// TestNewSpeed: figures are medians, and ratios medians of those of each round, not ratios of
// medians.
func TestNewSpeed(t *testing.T) {
	got := newSpeed(100, 11, map[string][]speed{
		aloneSystem: {{1, 1}, {2, 2}, {4, 4}},
		serveSystem: {{2, 1}, {2, 4}, {5, 5}},
		upSystem:    {{2, 2}, {3, 3}, {4, 4}},
	})
	serve, up := got.Systems[serveSystem], got.Systems[upSystem]
	if serve.FirstToken != 2 || serve.Prompt != 50 || serve.Decode != 2.5 || serve.PromptRatio != 0.8 || serve.DecodeRatio != 0.8 {
		t.Errorf("serve: %+v", serve)
	}
	if up.PromptRatio != 2.0/3 || up.DecodeRatio != 2.0/3 || got.FirstTokenRatio != 1 {
		t.Errorf("up: %+v, %v", up, got.FirstTokenRatio)
	}
}

// TestReport: the tables have what was measured, and the plot a panel for the speeds and one a link,
// with a curve for each mode, also for one that not every length has.
func TestReport(t *testing.T) {
	samples := map[string][]speed{aloneSystem: {{1, 1}}, serveSystem: {{1.25, 1}}, upSystem: {{1.5, 1}}}
	r := Report{
		Model: "/tmp/m.gguf", Threads: 1, Chunk: 256, Rounds: 3, Speeds: []Speed{newSpeed(500, 11, samples)},
		Links: []*pipeline.Report{
			{PromptTokens: 64, Rows: []pipeline.Row{{Bandwidth: 20e6, Mode: "monolithic", Exposed: 0.0123}, {Bandwidth: 200e6, Mode: "monolithic"}}},
			{PromptTokens: 500, Rows: []pipeline.Row{{Bandwidth: 20e6, Mode: "monolithic", Chunks: 2}, {Bandwidth: 20e6, Mode: "pipelined", Chunks: 2, Slices: 2, Exposed: 0.0077}}},
		},
	}
	var table, plot strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"m.gguf", "| 500 | 500.0 | 400.0 | 0.800 |", "1.200 |", "20 MB/s", "12.3 ms", "| pipelined | 2 | 2 |"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if err := r.Plot(&plot); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(plot.String(), "<polyline"); n != 3+2+2 {
		t.Errorf("%d curves", n)
	}
}

// TestRefusals: what cannot be measured is said by its flag's name.
func TestRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"model":   nil,
		"lengths": {"-model=x", "-lengths=1,5"},
		"links":   {"-model=x", "-links=20GB"},
		"output":  {"-model=x", "-output=1"},
		"rounds":  {"-model=x", "-rounds=0"},
	} {
		var out bytes.Buffer
		if err := command(context.Background(), args, &out, io.Discard); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v: %v, %q", args, err, out.String())
		}
	}
}
