package main

import (
	"github.com/spf13/cobra"

	"kvferry/config"
	"kvferry/node"
)

func routerCommand() *cobra.Command {
	s := settings{use: config.Router}
	var cfg node.RouterConfig
	var door access
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
			l = l.With("role", "router")
			c, err := s.load(l)
			if err != nil {
				return err
			}
			if door, err = door.resolve(cmd.Flags()); err != nil {
				return err
			}
			drain := cfg.DrainTimeout
			cfg = node.RouterConfigOf(c)
			cfg.Token, cfg.DrainTimeout, cfg.Log = door.token, drain, l
			return serveUntilStopped(cmd, func() (server, error) { return startRouter(cfg, door) })
		},
	}
	f := cmd.Flags()
	s.fileFlag(f)
	routingFlags(f, &s.over)
	door.tokenFlag(f)
	door.trustFlag(f, "say nothing about a token that is missing: the engines trust the network")
	f.StringSliceVar(&s.over.PrefillURLs, "prefill", nil, "`URL` of a prefill engine; repeat it, or separate by commas")
	f.StringSliceVar(&s.over.DecodeURLs, "decode", nil, "`URL` of a decode engine; repeat it, or separate by commas")
	drainFlag(f, &cfg.DrainTimeout)
	log.add(f)
	return cmd
}

// startRouter starts a router, and says so if only engines that trust everybody will deal with it.
func startRouter(cfg node.RouterConfig, door access) (server, error) {
	r, err := node.StartRouter(cfg)
	if err == nil {
		door.warn(cfg.Log, "engines will refuse this router's legs")
	}
	return r, err
}
