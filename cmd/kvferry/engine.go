package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kvferry/engine"
	"kvferry/node"
)

func serveCommand() *cobra.Command {
	cmd := engineCommand(engine.Aggregated)
	cmd.Use, cmd.Short = "serve", "Serve a model in one process, prefill and decode together"
	return cmd
}

func prefillCommand() *cobra.Command {
	cmd := engineCommand(engine.Prefill)
	cmd.Use, cmd.Short = "prefill", "Run a prefill engine, which computes prompts and sends their KV"
	return cmd
}

func decodeCommand() *cobra.Command {
	cmd := engineCommand(engine.Decode)
	cmd.Use, cmd.Short = "decode", "Run a decode engine, which receives KV and writes answers"
	return cmd
}

func engineCommand(role engine.Role) *cobra.Command {
	s := settings{use: node.UseOf(role)}
	process := node.DefaultEngineConfig() // for what no file says
	var door access
	var log logFlags
	cmd := &cobra.Command{
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := log.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			l = l.With("role", role.String())
			c, err := s.load(l)
			if err != nil {
				return err
			}
			if role != engine.Aggregated {
				if door, err = door.resolve(cmd.Flags()); err != nil {
					return err
				}
			}
			cfg := node.EngineConfigOf(c, role)
			cfg.Listen, cfg.AgentListen, cfg.DrainTimeout = process.Listen, process.AgentListen, process.DrainTimeout
			cfg.Token, cfg.TrustNetwork = door.token, door.trust
			cfg.Log = l
			return serveUntilStopped(cmd, func() (server, error) { return startEngine(cfg) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&process.Listen, "listen", process.Listen, "HTTP address, host:port; port 0 takes a free one")
	if role != engine.Aggregated {
		s.fileFlag(f)
		f.StringVar(&process.AgentListen, "agent-listen", process.AgentListen,
			"address for KV transfers, host:port; set it beside --listen when the other engine is on another host")
	}
	engineFlags(f, &s.over)
	if role != engine.Aggregated {
		leaseFlags(f, &s.over)
		agentFlags(f, &s.over)
		door.tokenFlag(f)
		door.trustFlag(f, "take legs of requests from whoever can reach this engine, without a token")
	}
	if role == engine.Prefill {
		pipelinedFlag(f, &s.over, false)
	}
	drainFlag(f, &process.DrainTimeout)
	log.add(f)
	return cmd
}

// startEngine starts an engine, and says so if nobody can have anything of it.
func startEngine(cfg node.EngineConfig) (server, error) {
	e, err := node.StartEngine(cfg)
	if err == nil && cfg.Role != engine.Aggregated {
		access{cfg.Token, cfg.TrustNetwork}.warn(cfg.Log, "this engine refuses every leg of a request")
	}
	return e, err
}

// server is a process's running part.
type server interface {
	Addr() string
	Stop(ctx context.Context)
}

// serveUntilStopped says where the server is, and drains it when the user or the system, or
// the parent's end, says so. A second signal ends it at once, as does the first one before it
// serves.
func serveUntilStopped(cmd *cobra.Command, start func() (server, error)) error {
	stop, release := stopSignal()
	defer release()
	var s server
	started := make(chan error, 1)
	go func() {
		var err error
		s, err = start()
		started <- err
	}()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-stop.Done():
		return nil // a model that is being loaded is not waited for
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%shttp://%s\n", node.ReadyPrefix, s.Addr())
	<-stop.Done()
	s.Stop(stop.force)
	return nil
}
