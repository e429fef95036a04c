//go:build linux && amd64 && llamacpp

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvferry/node/e2etest"
	"kvferry/runner/llamacpp"
	"kvferry/runner/reference/reftest"
)

// needLlama skips a test where llama.cpp is not there, except in CI.
func needLlama(t *testing.T) {
	t.Helper()
	switch {
	case os.Getenv(llamacpp.Variable) != "":
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is not set", llamacpp.Variable)
	default:
		t.Skipf("%s is not set", llamacpp.Variable)
	}
}

// TestMeasure: everything is measured once with a small model, and comes out as JSON with a plot.
//
// req: SERVE-05
func TestMeasure(t *testing.T) {
	needLlama(t)
	model := e2etest.RandomModel(t, "random", reftest.ModelOptions{Layers: 3, KVHeads: 2, Context: 1024})
	plot := filepath.Join(t.TempDir(), "plot.svg")
	var out bytes.Buffer
	err := command(t.Context(), []string{
		"-model", model, "-lengths=8,70", "-chunk-tokens=32", "-output=4", "-rounds=1", "-links=5MB", "-json", "-plot", plot,
	}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Speeds) != 2 || len(r.Links) != 2 {
		t.Fatalf("%s", out.String())
	}
	for _, s := range r.Speeds {
		for _, name := range []string{aloneSystem, serveSystem, upSystem} {
			if f := s.Systems[name]; f.FirstToken <= 0 || f.Prompt <= 0 || f.Decode <= 0 || f.PromptRatio <= 0 || f.DecodeRatio <= 0 {
				t.Errorf("%d tokens, %s: %+v", s.PromptTokens, name, f)
			}
		}
	}
	for i, chunks := range []int{1, 3} {
		for _, row := range r.Links[i].Rows {
			if row.Chunks != chunks || row.Transfer <= 0 || row.Exposed <= 0 || row.Mode == "monolithic" && row.Slices != 1 ||
				row.Mode != "monolithic" && row.Slices < chunks {
				t.Errorf("%d tokens: %+v", r.Links[i].PromptTokens, row)
			}
		}
	}
	if svg, err := os.ReadFile(plot); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("%v: %.40s", err, svg)
	}
}
