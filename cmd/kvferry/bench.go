package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kvferry/bench/pipeline"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure transfers, leases, or any server that speaks OpenAI's API"}
	cmd.AddCommand(benchPipelineCommand(), benchServeCommand(), benchLeaseCommand(), benchTransferCommand())
	return cmd
}

// outputFlags are those of every bench.
type outputFlags struct {
	json bool
	plot string
}

func benchPipelineCommand() *cobra.Command {
	o := pipeline.DefaultOptions()
	o.Engine.Model = "emulated:qwen2.5-7b@m2-ultra"
	var out outputFlags
	var links []string
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Measure how much of the KV's transfer the first token waits for, monolithic, pipelined and layer-wise",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range links {
				rate, err := parseRate(s)
				if err != nil {
					return fmt.Errorf("bandwidth: %w", err)
				}
				o.Bandwidths = append(o.Bandwidths, rate)
			}
			say := newProgress(cmd.ErrOrStderr())
			defer say.end()
			o.Say = say.line
			stop, release := stopSignal()
			defer release()
			rep, err := pipeline.Run(stop, o)
			if err != nil {
				return err
			}
			say.end()
			return out.write(cmd.OutOrStdout(), rep, rep.Table, rep.Plot)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Engine.Model, "model", o.Engine.Model, modelUsage)
	f.IntVar(&o.Engine.BlockTokens, "block-tokens", o.Engine.BlockTokens, "tokens of a KV block")
	f.StringVar(&o.Engine.KVDType, "kv-dtype", o.Engine.KVDType, "type of the KV cache, f16, f32 or q8_0 (llama.cpp only)")
	f.IntVar(&o.PromptTokens, "prompt-tokens", 0, "length of the prompt (default 2048, or what fits the model's context)")
	f.IntSliceVar(&o.Chunks, "chunks", o.Chunks, "numbers of chunks to cut the prompt into")
	f.StringSliceVar(&links, "bandwidth", nil,
		"bandwidths of the link, as 500MB or 10Gbit a second (default half, 1.5 and 4 times the rate at which KV is computed)")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often to measure; medians are shown")
	f.BoolVar(&out.json, "json", false, "print JSON instead of a table")
	f.StringVar(&out.plot, "plot", "", "draw the exposed time into this SVG `FILE`")
	return cmd
}

// write prints a report and draws its plot.
func (o outputFlags) write(w io.Writer, report any, table, plot func(io.Writer) error) error {
	if o.plot != "" {
		f, err := os.Create(o.plot)
		if err != nil {
			return err
		}
		if err := plot(f); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if !o.json {
		return table(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// parseRate reads a bandwidth in bytes a second: a number with kB, MB, GB, Mbit or Gbit.
func parseRate(s string) (int64, error) {
	for _, u := range []struct {
		name  string
		bytes float64
	}{{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if number, ok := strings.CutSuffix(strings.TrimSuffix(s, "/s"), u.name); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(v*u.bytes >= 1 && v*u.bytes < 1e15) {
				break
			}
			return int64(v * u.bytes), nil
		}
	}
	return 0, fmt.Errorf("%q: want a number with kB, MB, GB, Mbit or Gbit, as 500MB", s)
}

// progress shows how far something is: on a terminal in one line that changes, elsewhere in
// lines of their own.
type progress struct {
	w        io.Writer
	terminal bool
	open     bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) line(s string) {
	if !p.terminal {
		fmt.Fprintln(p.w, s)
		return
	}
	const clear = "\r\x1b[K"
	fmt.Fprint(p.w, clear+s)
	p.open = true
}

// end leaves the line that changes.
func (p *progress) end() {
	if p.open {
		fmt.Fprintln(p.w)
		p.open = false
	}
}
