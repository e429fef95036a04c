package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kvferry/sim"
)

// simOptions are what `sim` is told.
type simOptions struct {
	seeds, first  uint64
	nodes, faults string
	trace, script string
}

// fullSeeds is how many seeds with all faults must between them take every transition.
const fullSeeds = 20000

func simCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run whole clusters on a virtual clock and network, with faults, and check every byte",
		Long: `Runs the engines themselves on a virtual clock and network, a cluster a seed, breaks
what can break, and checks that no byte is wrong, nothing leaks, nothing hangs and every
request ends once. A seed that fails is made small and printed as a script, which --script
runs again. The exit status is then 1.

Faults are: ` + strings.Join(sim.Names, ", ") + `.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.script != "" {
				return o.replay(cmd.OutOrStdout())
			}
			return o.run(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.seeds, "seeds", 1000, "how many seeds to run")
	f.Uint64Var(&o.first, "seed", 0, "the first of them")
	f.StringVar(&o.nodes, "nodes", "0,0", "`P,D` prefill and decode engines; 0 leaves it to the seed")
	f.StringVar(&o.faults, "faults", "all", "`LIST` of faults, or all, or none")
	f.StringVar(&o.trace, "trace", "", "write the trace of the seed that failed, or else of the first one, to this `FILE`")
	f.StringVar(&o.script, "script", "", "run the script in this `FILE` and print what happens")
	return cmd
}

func (o simOptions) run(out, progress io.Writer) error {
	faults, err := sim.ParseFaults(o.faults)
	if err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	nodes, err := parseNodes(o.nodes)
	if err != nil {
		return fmt.Errorf("--nodes: %w", err)
	}
	began := time.Now()
	farm := sim.Farm{
		First: o.first, Seeds: o.seeds, Faults: faults, Nodes: nodes,
		Progress: func(done, failed uint64) {
			fmt.Fprintf(progress, "\r%d of %d seeds, %d failed", done, o.seeds, failed)
		},
	}
	summary := farm.Run()
	fmt.Fprintln(progress)
	summary.Print(out, time.Since(began))
	if len(summary.Failures) > 0 {
		return o.explain(out, sim.Generate(summary.Failures[0].Seed, faults, nodes), len(summary.Failures))
	}
	if o.trace != "" {
		if err := writeTrace(o.trace, sim.Generate(o.first, faults, nodes)); err != nil {
			return err
		}
	}
	return o.covered(summary)
}

// covered says whether every transition was taken, where so many seeds have to.
func (o simOptions) covered(s sim.Summary) error {
	if n := len(s.Cover.Undeclared()); n > 0 {
		return fmt.Errorf("%d transitions were taken that no machine should have", n)
	}
	if n := len(s.Cover.Untaken()); n > 0 && o.faults == "all" && o.seeds >= fullSeeds {
		return fmt.Errorf("%d transitions were never taken", n)
	}
	return nil
}

// explain makes a failing plan small and says all of it.
func (o simOptions) explain(out io.Writer, plan sim.Plan, failures int) error {
	seed := plan.Seed
	small, bad := sim.Shrink(plan)
	if o.trace == "" {
		o.trace = filepath.Join(os.TempDir(), fmt.Sprintf("kvferry-sim-%d.json", seed))
	}
	if err := writeTrace(o.trace, small); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nseed %d: %v\n\nThe same, made small, for --script:\n\n%s\nIts trace is in %s.\n", seed, bad, small, o.trace)
	return fmt.Errorf("%d seeds failed", failures)
}

// replay runs one script and prints every event.
func (o simOptions) replay(out io.Writer) error {
	text, err := os.ReadFile(o.script)
	if err != nil {
		return err
	}
	plan, err := sim.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", o.script, err)
	}
	got := sim.Run(plan, sim.Options{Log: true})
	for _, line := range got.Log {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "hash %016x\n", got.Hash)
	if o.trace != "" {
		if err := writeTrace(o.trace, plan); err != nil {
			return err
		}
	}
	if got.Violation != nil {
		return got.Violation
	}
	return nil
}

func writeTrace(path string, plan sim.Plan) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := sim.Run(plan, sim.Options{Trace: true}).Trace.Write(f, plan); err != nil {
		_ = f.Close() // the write's own error says more
		return err
	}
	return f.Close()
}

func parseNodes(s string) (sim.Nodes, error) {
	p, d, ok := strings.Cut(s, ",")
	prefill, err1 := strconv.Atoi(p)
	decode, err2 := strconv.Atoi(d)
	if !ok || err1 != nil || err2 != nil || prefill < 0 || decode < 0 || prefill > 16 || decode > 16 {
		return sim.Nodes{}, fmt.Errorf("%q: want two numbers from 0 to 16, such as 2,2", s)
	}
	return sim.Nodes{Prefill: prefill, Decode: decode}, nil
}
