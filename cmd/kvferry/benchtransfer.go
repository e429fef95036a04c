package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kvferry/agent"
	"kvferry/agent/nixl"
	"kvferry/agent/shm"
	"kvferry/agent/tcp"
	"kvferry/bench/transfer"
)

// benchAgents are the agents that bench transfer knows, with what tells whether this machine has
// them.
var benchAgents = []struct {
	name string
	here func() error
	open func(arg string) (agent.Agent, error)
}{
	{"tcp", always, func(arg string) (agent.Agent, error) {
		o := tcp.Options{Log: quietLog}
		if arg != "" {
			n, err := strconv.Atoi(arg)
			if err != nil || n < 1 || n > 64 {
				return nil, fmt.Errorf("tcp:%s: want a number of connections, 1 to 64", arg)
			}
			o.Bulk = n
		}
		return tcp.New(o), nil
	}},
	{"shm", func() error {
		a, err := shm.New(shm.Options{Log: quietLog})
		if err == nil {
			err = a.Close(context.Background())
		}
		return err
	}, func(string) (agent.Agent, error) { return shm.New(shm.Options{Log: quietLog}) }},
	{"nixl", func() error { _, err := nixl.FindLibrary(""); return err }, func(arg string) (agent.Agent, error) {
		return nixl.New(nixl.Options{Control: tcp.New(tcp.Options{Log: quietLog}), Backend: arg, Log: quietLog})
	}},
}

func always() error { return nil }

var quietLog = slog.New(slog.DiscardHandler)

// openBenchAgent makes an agent of a name, or of name:argument.
func openBenchAgent(name string) (agent.Agent, error) {
	kind, arg, _ := strings.Cut(name, ":")
	var known []string
	for _, a := range benchAgents {
		if a.name == kind {
			return a.open(arg)
		}
		known = append(known, a.name)
	}
	return nil, fmt.Errorf("agent %q is not known: want %s", name, strings.Join(known, ", "))
}

func benchTransferCommand() *cobra.Command {
	o := transfer.DefaultOptions()
	o.Open, o.Peer = openBenchAgent, benchPeer
	var out outputFlags
	var peer string
	var blocks []string
	var total string
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Measure how fast transfer agents move permuted blocks between processes, and what that costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Total, err = parseSize(total); err != nil {
				return fmt.Errorf("total: %w", err)
			}
			if peer != "" {
				return transfer.Serve(o.Open, peer, o.Total, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if len(blocks) > 0 {
				o.Blocks = nil
			}
			for _, s := range blocks {
				n, err := parseSize(s)
				if err != nil {
					return fmt.Errorf("blocks: %w", err)
				}
				o.Blocks = append(o.Blocks, n)
			}
			if len(o.Agents) == 0 {
				for _, a := range benchAgents {
					if a.here() == nil {
						o.Agents = append(o.Agents, a.name)
					}
				}
			}
			say := newProgress(cmd.ErrOrStderr())
			defer say.end()
			o.Say = say.line
			rep, err := transfer.Run(o)
			if err != nil {
				return err
			}
			say.end()
			return out.write(cmd.OutOrStdout(), rep, rep.Table, nil)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Agents, "agents", nil, "tcp, tcp:CONNECTIONS, shm, nixl, nixl:BACKEND, each in processes of its own (default all that this machine has)")
	f.StringSliceVar(&blocks, "blocks", nil, "sizes of blocks (default 4KiB,16KiB,64KiB,256KiB,2MiB)")
	f.StringVar(&total, "total", "256MiB", "memory of each process, all of which moves in a round")
	f.StringSliceVar(&o.Ops, "ops", o.Ops, "write, read")
	f.IntVar(&o.Peers, "peers", o.Peers, "processes to move to and from at once")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of which the median is told; they go through all agents in turn")
	f.IntVar(&o.Pings, "pings", o.Pings, "small messages that are timed, alone and beside bulk; 0 for none")
	f.BoolVar(&out.json, "json", false, "print JSON instead of a table")
	f.StringVar(&peer, "as-peer", "", "be the other process, of this agent")
	_ = f.MarkHidden("as-peer") // it is there
	return cmd
}

// benchPeer starts this program as the other process.
func benchPeer(name string, total int) (*transfer.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "bench", "transfer", "--as-peer="+name, "--total="+strconv.Itoa(total))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &transfer.Process{In: in, Out: answers, Wait: cmd.Wait}, nil
}

// parseSize reads bytes, as 4096, 4KiB or 2MiB.
func parseSize(s string) (int, error) {
	digits, unit := s, 1
	for name, n := range map[string]int{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if d, ok := strings.CutSuffix(s, name); ok {
			digits, unit = d, n
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > (1<<40)/unit {
		return 0, fmt.Errorf("%q: want bytes, as 4096, 4KiB or 2MiB", s)
	}
	return n * unit, nil
}
