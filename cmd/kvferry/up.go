package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"kvferry/config"
	"kvferry/engine"
	"kvferry/node"
)

// upOptions are what `up` is asked for.
type upOptions struct {
	settings
	drain time.Duration
	door  access
	log   logFlags
}

func upCommand() *cobra.Command {
	o := upOptions{settings: settings{use: config.Up}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a router, prefill and decode engines as processes of their own",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	o.fileFlag(f)
	clusterFlags(f, &o.over, true)
	o.door.tokenFlag(f)
	drainFlag(f, &o.drain)
	o.log.add(f)
	return cmd
}

// engine is the configuration of an engine to start.
func (o *upOptions) engine(c config.Config, role engine.Role) node.EngineConfig {
	cfg := node.EngineConfigOf(c, role)
	cfg.DrainTimeout = o.drain
	return cfg
}

func (o *upOptions) run(cmd *cobra.Command) error {
	l, err := o.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	c, err := o.load(l)
	if err != nil {
		return err
	}
	door, err := o.door.resolve(cmd.Flags())
	if err != nil {
		return err
	}
	if door.token == "" {
		door.token = node.NewToken()
	}
	stop, release := stopSignal()
	defer release()
	g := &group{cmd: cmd, log: l, level: o.log.level, token: door.token}
	defer g.stop(stop.force)
	switch err := o.start(stop, g, c); {
	case stop.Err() != nil:
		return nil // whatever had not been started then
	case err != nil:
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%shttp://%s\n", node.ReadyPrefix, g.router.Addr())
	<-stop.Done()
	return nil
}

// start starts every process and waits until requests can be served, or ctx ends.
func (o *upOptions) start(ctx context.Context, g *group, c config.Config) error {
	if err := o.prepare(ctx, c, g.log); err != nil {
		return err
	}
	prefill, err := g.engines(ctx, "prefill", *c.ContextServers.NumInstances, engineArgs(o.engine(c, engine.Prefill), true))
	if err != nil {
		return err
	}
	decode, err := g.engines(ctx, "decode", *c.GenerationServers.NumInstances, engineArgs(o.engine(c, engine.Decode), false))
	if err != nil {
		return err
	}
	router, err := g.start(ctx, "router", c.Listen(), append(
		append([]string{"router"}, routerArgs(c, o.drain)...),
		append(urls("--prefill=", prefill), urls("--decode=", decode)...)...))
	if err != nil {
		return err
	}
	g.router = router
	return node.AwaitReady(ctx, router.Addr())
}

// prepare has made once what every engine would make; it is not waited for when ctx ends.
func (o *upOptions) prepare(ctx context.Context, c config.Config, log *slog.Logger) error {
	done := make(chan error, 1)
	go func() {
		var err error
		for _, role := range []engine.Role{engine.Prefill, engine.Decode} {
			cfg := o.engine(c, role)
			cfg.Log = log
			err = errors.Join(err, node.Prepare(cfg))
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// group is the processes of one `up`.
type group struct {
	cmd     *cobra.Command
	log     *slog.Logger
	level   string
	token   string // of all of them
	router  *node.Child
	workers []*node.Child
}

func (g *group) engines(ctx context.Context, role string, n int, args []string) ([]*node.Child, error) {
	var out []*node.Child
	for i := range n {
		c, err := g.start(ctx, fmt.Sprintf("%s-%d", role, i), "127.0.0.1:0", append([]string{role}, args...))
		if err != nil {
			return nil, err
		}
		g.workers = append(g.workers, c)
		out = append(out, c)
	}
	return out, nil
}

func (g *group) start(ctx context.Context, name, listen string, args []string) (*node.Child, error) {
	return node.StartChild(ctx, node.ChildConfig{
		Name: name, Listen: listen, Stderr: g.cmd.ErrOrStderr(),
		Env: []string{node.TokenVariable + "=" + g.token}, // an argument could be seen by everybody
		Say: func(line string) { fmt.Fprintln(g.cmd.ErrOrStderr(), "kvferry:", line) },
		Args: func(listen string) []string {
			return append(args[:len(args):len(args)], "--listen="+listen, "--log-level="+g.level)
		},
	})
}

// stop drains the router first, so that the engines are there for the requests that still run.
func (g *group) stop(ctx context.Context) {
	if g.router != nil {
		g.router.Stop(ctx)
	}
	var wg sync.WaitGroup
	for _, c := range g.workers {
		wg.Go(func() { c.Stop(ctx) })
	}
	wg.Wait()
}

func urls(flag string, children []*node.Child) []string {
	var out []string
	for _, c := range children {
		out = append(out, flag+"http://"+c.Addr())
	}
	return out
}
