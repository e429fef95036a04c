package main

import (
	"time"

	"github.com/spf13/cobra"

	"kvferry/node"
)

func routerCommand() *cobra.Command {
	cfg := node.RouterConfig{Listen: "127.0.0.1:8000", DrainTimeout: 30 * time.Second}
	var log logFlags
	cmd := &cobra.Command{
		Use:   "router",
		Short: "Run the router, which pairs a prefill with a decode engine for each request",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := log.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			cfg.Log = l.With("role", "router")
			return serveUntilStopped(cmd, func() (server, error) { return node.StartRouter(cfg) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Listen, "listen", cfg.Listen, "HTTP address, host:port; port 0 takes a free one")
	f.StringSliceVar(&cfg.Prefill, "prefill", nil, "`URL` of a prefill engine; repeat it, or separate by commas")
	f.StringSliceVar(&cfg.Decode, "decode", nil, "`URL` of a decode engine; repeat it, or separate by commas")
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", cfg.DrainTimeout, "how long requests may go on after the order to stop")
	log.add(f)
	return cmd
}
