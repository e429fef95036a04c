package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kvferry/config"
	"kvferry/doctor"
)

// documentedPorts are the addresses of the documentation's deployments, beside the router's.
var documentedPorts = []doctor.Port{
	{Addr: "127.0.0.1:8101", Whose: "prefill"},
	{Addr: "127.0.0.1:8201", Whose: "prefill's transfers"},
	{Addr: "127.0.0.1:8102", Whose: "decode"},
	{Addr: "127.0.0.1:8202", Whose: "decode's transfers"},
}

func doctorCommand() *cobra.Command {
	var o doctor.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at this machine: what can compute here, what can carry KV, and does a model fit",
		Long: `Look at this machine: llama.cpp's libraries and their devices, the processor, memory, limits,
ports and transfer agents, and with --model whether and how a model can be run. Each finding is ok,
warn or fail, with what to do; the exit status is 1 if one failed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Ports = append([]doctor.Port{{Addr: config.Default().Listen(), Whose: "the router, and up"}}, documentedPorts...)
			r := doctor.Run(doctor.Host(), o)
			write := r.Text
			if asJSON {
				write = r.JSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if n := r.Failed(); n > 0 {
				return fmt.Errorf("checks that failed: %d", n)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "GGUF `FILE` to look at")
	f.StringVar(&o.LlamaLib, "llama-lib", "", "folder of llama.cpp's shared libraries (default as for the engines)")
	f.BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}
