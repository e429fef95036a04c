package main

import (
	"github.com/spf13/cobra"

	"kvferry/bench/lease"
)

func benchLeaseCommand() *cobra.Command {
	o := lease.DefaultOptions()
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "Measure what renewing many leases costs, by sets and request by request",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := newProgress(cmd.ErrOrStderr())
			defer say.end()
			o.Say = say.line
			rep, err := lease.Run(o)
			if err != nil {
				return err
			}
			say.end()
			return out.write(cmd.OutOrStdout(), rep, rep.Table, nil)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Leases, "leases", o.Leases, "leases that live at a time")
	f.IntVar(&o.Peers, "peers", o.Peers, "readers that share them")
	f.DurationVar(&o.Duration, "duration", o.Duration, "a lease's duration, in virtual time")
	f.IntVar(&o.Changes, "changes", o.Changes, "joins and leaves a second")
	f.Float64Var(&o.Expiring, "expiring", o.Expiring, "part of the peers that fall silent")
	f.IntVar(&o.Periods, "periods", o.Periods, "durations that each part lasts")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "makes the same load again")
	f.BoolVar(&out.json, "json", false, "print JSON instead of a table")
	return cmd
}
