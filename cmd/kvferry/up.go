package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"kvferry/node"
)

// upOptions are what `up` is asked for.
type upOptions struct {
	listen          string
	prefill, decode int
	engine          node.EngineConfig
	log             logFlags
}

func upCommand() *cobra.Command {
	o := upOptions{engine: node.DefaultEngineConfig()}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a router, prefill and decode engines as processes of their own",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8000", "the router's HTTP address, host:port; port 0 takes a free one")
	f.IntVar(&o.prefill, "prefill", 1, "number of prefill engines")
	f.IntVar(&o.decode, "decode", 1, "number of decode engines")
	modelFlags(f, &o.engine)
	pipelinedFlag(f, &o.engine, true)
	o.log.add(f)
	return cmd
}

func (o *upOptions) run(cmd *cobra.Command) error {
	if o.prefill < 1 {
		return fmt.Errorf("prefill %d: want at least 1", o.prefill)
	}
	if o.decode < 1 {
		return fmt.Errorf("decode %d: want at least 1", o.decode)
	}
	if err := o.engine.Validate(); err != nil {
		return err
	}
	if _, err := o.log.logger(cmd.ErrOrStderr()); err != nil {
		return err
	}
	stop, release := stopSignal()
	defer release()
	g := &group{cmd: cmd, level: o.log.level}
	defer g.stop(stop.force)
	prefill, err := g.engines("prefill", o.prefill, engineArgs(o.engine, true))
	if err != nil {
		return err
	}
	decode, err := g.engines("decode", o.decode, engineArgs(o.engine, false))
	if err != nil {
		return err
	}
	router, err := g.start("router", o.listen, append(
		[]string{"router", "--drain-timeout=" + o.engine.DrainTimeout.String()},
		append(urls("--prefill=", prefill), urls("--decode=", decode)...)...))
	if err != nil {
		return err
	}
	g.router = router
	if stop.Err() == nil {
		if err := node.AwaitReady(stop, router.Addr()); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%shttp://%s\n", node.ReadyPrefix, router.Addr())
	}
	<-stop.Done()
	return nil
}

// group is the processes of one `up`.
type group struct {
	cmd     *cobra.Command
	level   string
	router  *node.Child
	workers []*node.Child
}

func (g *group) engines(role string, n int, args []string) ([]*node.Child, error) {
	var out []*node.Child
	for i := range n {
		c, err := g.start(fmt.Sprintf("%s-%d", role, i), "127.0.0.1:0", append([]string{role}, args...))
		if err != nil {
			return nil, err
		}
		g.workers = append(g.workers, c)
		out = append(out, c)
	}
	return out, nil
}

func (g *group) start(name, listen string, args []string) (*node.Child, error) {
	return node.StartChild(node.ChildConfig{
		Name: name, Listen: listen, Stderr: g.cmd.ErrOrStderr(),
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
