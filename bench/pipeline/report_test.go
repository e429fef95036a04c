package pipeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"kvferry/node"
)

func figures(prefill, transfer, exposed, first float64) sample {
	return sample{
		TransferFigures: node.TransferFigures{
			Prefill: prefill, Transfer: transfer, Exposed: exposed, Hidden: transfer - exposed, Slices: 4,
		},
		firstToken: first,
	}
}

// TestRow: medians, and the ideal from the monolithic samples beside.
func TestRow(t *testing.T) {
	mono := []sample{figures(1, 0.4, 0.4, 1.5), figures(1, 0.8, 0.8, 1.9), figures(1, 0.5, 0.5, 1.6)}
	pipe := []sample{figures(1, 0.6, 0.1, 1.3), figures(1, 0.6, 0.2, 1.2), figures(1, 0.6, 0.3, 1.4), figures(1, 0.6, 0.4, 1.1)}
	got := newRow(100, "pipelined", 4, pipe, mono)
	want := Row{
		Bandwidth: 100, Mode: "pipelined", Chunks: 4, Slices: 4, Compute: 1, Transfer: 0.6, Hidden: 0.35, Exposed: 0.25,
		FirstToken: 1.25, Ideal: 0.125, Ratio: 2, Hideable: true,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if newRow(100, "pipelined", 4, pipe, []sample{figures(1, 1.1, 1.1, 3)}).Hideable {
		t.Error("a transfer that takes longer than computing is hideable")
	}
}

func twoLinks() *Report {
	return &Report{
		Model: `emulated:<&">`, PromptTokens: 100, KVBytes: 12_345_678, KVRate: 2e9, Rounds: 3,
		Rows: []Row{
			{Bandwidth: 5e8, Mode: "monolithic", Chunks: 1, Exposed: 0.1, Ideal: 0.1, Ratio: 1, Hideable: true},
			{Bandwidth: 5e8, Mode: "pipelined", Chunks: 1, Exposed: 0.1, Ideal: 0.1, Ratio: 1, Hideable: true},
			{Bandwidth: 5e8, Mode: "monolithic", Chunks: 16, Exposed: 0.1, Ideal: 0.1 / 16, Ratio: 16, Hideable: true},
			{Bandwidth: 5e8, Mode: "pipelined", Chunks: 16, Exposed: 0.00789, Ideal: 0.1 / 16, Ratio: 1.2624, Hideable: true},
			{Bandwidth: 5e8, Mode: "layer-wise", Chunks: 16, Exposed: 0.0009, Ideal: 0.1 / 16, Ratio: 0.144, Hideable: true},
			{Bandwidth: 1e6, Mode: "monolithic", Chunks: 1, Exposed: 12, Ideal: 12, Ratio: 1},
			{Bandwidth: 1e6, Mode: "pipelined", Chunks: 1, Exposed: 12, Ideal: 12, Ratio: 1},
		},
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := twoLinks().Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12.3 MB of KV, computed at 2 GB/s", "500 MB/s", "7.9", "1.26", "1.00*", "12000.0"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

// TestPlot: the drawing is well-formed, and has a panel a link, with four curves each.
func TestPlot(t *testing.T) {
	var b bytes.Buffer
	if err := twoLinks().Plot(&b); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for d := xml.NewDecoder(&b); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
	if count["svg"] != 1 || count["polyline"] != 8 || count["circle"] != 7 {
		t.Errorf("%v", count)
	}
}

func TestTick(t *testing.T) {
	for highest, want := range map[float64]float64{0: 1, 1: 0.2, 19: 2, 20: 5, 49: 5, 50: 10, 99: 10, 1200: 200} {
		if got := tick(highest); got < want*0.999 || got > want*1.001 {
			t.Errorf("up to %v: every %v, want %v", highest, got, want)
		}
	}
}
