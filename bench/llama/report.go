package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"kvferry/bench/chart"
	"kvferry/bench/pipeline"
)

// Report is what was measured. All times are medians in seconds.
type Report struct {
	Model   string  `json:"model"`
	Threads int     `json:"threads"`
	Chunk   int     `json:"chunk_tokens"`
	Rounds  int     `json:"rounds"`
	Speeds  []Speed `json:"speeds"`
	// Links has a report for each prompt length.
	Links []*pipeline.Report `json:"links,omitempty"`
}

// Speed is how fast prompts of one length are answered.
type Speed struct {
	PromptTokens int                `json:"prompt_tokens"`
	OutputTokens int                `json:"output_tokens"`
	Systems      map[string]Figures `json:"systems"`
	// FirstTokenRatio is the time to first token of up over that of serve.
	FirstTokenRatio float64 `json:"first_token_ratio"`
}

// Figures are one system's.
type Figures struct {
	FirstToken float64 `json:"first_token_seconds"`
	// Prompt is the prompt's tokens over the time to first token, Decode the tokens a second after
	// that. The ratios are to those of llama.cpp alone.
	Prompt      float64 `json:"prompt_tokens_per_second"`
	Decode      float64 `json:"decode_tokens_per_second"`
	PromptRatio float64 `json:"prompt_ratio"`
	DecodeRatio float64 `json:"decode_ratio"`
}

// Table writes the report in Markdown.
func (r *Report) Table(w io.Writer) error {
	t := table{w: w}
	t.printf("%s, %d thread(s) each, chunks of %d tokens, medians of %d rounds; ratios are to llama.cpp alone, but for the last one, `up` over `serve`\n\n",
		filepath.Base(r.Model), r.Threads, r.Chunk, r.Rounds)
	t.printf("| prompt | alone, prompt t/s | `serve` | ratio | `up` | ratio | alone, decode t/s | `serve` | ratio | `up` | ratio | first token, `serve` | `up` | ratio |\n")
	t.printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range r.Speeds {
		a, serve, up := s.Systems[aloneSystem], s.Systems[serveSystem], s.Systems[upSystem]
		t.printf("| %d | %.1f | %.1f | %.3f | %.1f | %.3f | %.1f | %.1f | %.3f | %.1f | %.3f | %s ms | %s ms | %.3f |\n",
			s.PromptTokens, a.Prompt, serve.Prompt, serve.PromptRatio, up.Prompt, up.PromptRatio,
			a.Decode, serve.Decode, serve.DecodeRatio, up.Decode, up.DecodeRatio, ms(serve.FirstToken), ms(up.FirstToken), s.FirstTokenRatio)
	}
	if len(r.Links) > 0 {
		t.printf("\n| prompt | link | mode | chunks | slices | computed in | transfer | hidden | exposed | first token |\n")
		t.printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	}
	for _, l := range r.Links {
		for _, row := range l.Rows {
			t.printf("| %d | %s | %s | %d | %d | %s ms | %s ms | %s ms | %s ms | %s ms |\n", l.PromptTokens, linkName(row.Bandwidth), row.Mode,
				row.Chunks, row.Slices, ms(row.Compute), ms(row.Transfer), ms(row.Hidden), ms(row.Exposed), ms(row.FirstToken))
		}
	}
	return t.err
}

// table keeps the first error of writing.
type table struct {
	w   io.Writer
	err error
}

func (t *table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

func ms(seconds float64) string { return strconv.FormatFloat(seconds*1000, 'f', 1, 64) }

func linkName(bytes int64) string {
	return strconv.FormatFloat(float64(bytes)/1e6, 'g', 4, 64) + " MB/s"
}

// colors of curves, in their order.
var colors = []string{"#8a8a8a", "#1f5fbf", "#2e8b57", "#c2571a", "#7a3fa0"}

// Plot draws prompt speed, and for each link the exposed time, over the prompt's length.
func (r *Report) Plot(w io.Writer) error {
	speeds := chart.Panel{Title: "prompt speed", XName: "prompt tokens", YName: "tokens/s to the first token"}
	for _, s := range r.Speeds {
		speeds.X = append(speeds.X, strconv.Itoa(s.PromptTokens))
	}
	for i, name := range []string{aloneSystem, serveSystem, upSystem} {
		c := chart.Curve{Name: name, Color: colors[i]}
		for _, s := range r.Speeds {
			c.Y = append(c.Y, s.Systems[name].Prompt)
		}
		speeds.Curves = append(speeds.Curves, c)
	}
	panels := []chart.Panel{speeds}
	for _, link := range r.rates() {
		panels = append(panels, r.linkPanel(link))
	}
	return chart.Draw(w, fmt.Sprintf("%s, %d thread(s) each, chunks of %d tokens", filepath.Base(r.Model), r.Threads, r.Chunk), panels)
}

// rates are the links that were measured.
func (r *Report) rates() []int64 {
	var out []int64
	for _, l := range r.Links {
		for _, row := range l.Rows {
			if !slices.Contains(out, row.Bandwidth) {
				out = append(out, row.Bandwidth)
			}
		}
	}
	return out
}

func (r *Report) linkPanel(link int64) chart.Panel {
	p := chart.Panel{Title: "exposed transfer, " + linkName(link), XName: "prompt tokens", YName: "exposed, ms"}
	var modes []string
	for _, l := range r.Links {
		p.X = append(p.X, strconv.Itoa(l.PromptTokens))
		for _, row := range l.Rows {
			if !slices.Contains(modes, row.Mode) {
				modes = append(modes, row.Mode)
			}
		}
	}
	for i, mode := range modes {
		c := chart.Curve{Name: mode, Color: colors[i%len(colors)]}
		for _, l := range r.Links {
			y := math.NaN()
			for _, row := range l.Rows {
				if row.Bandwidth == link && row.Mode == mode {
					y = row.Exposed * 1000
				}
			}
			c.Y = append(c.Y, y)
		}
		p.Curves = append(p.Curves, c)
	}
	return p
}
