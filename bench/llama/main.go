package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "llama:", err)
		os.Exit(1)
	}
}

// command measures as the arguments say, and prints what came of it.
func command(ctx context.Context, args []string, out, said io.Writer) error {
	o := defaults()
	f := flag.NewFlagSet("llama", flag.ContinueOnError)
	f.SetOutput(said)
	o.flags(f)
	asJSON := f.Bool("json", false, "print JSON instead of tables")
	plot := f.String("plot", "", "draw the figures into this SVG `file`")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.say = func(line string) { fmt.Fprintln(said, line) }
	rep, err := measure(ctx, &o)
	if err != nil {
		return err
	}
	if *plot != "" {
		if err := draw(rep, *plot); err != nil {
			return err
		}
	}
	if !*asJSON {
		return rep.Table(out)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

func measure(ctx context.Context, o *options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	rep := &Report{Model: o.engine.Model, Threads: o.engine.Llama.Threads, Chunk: o.engine.ChunkTokens, Rounds: o.rounds}
	var err error
	if rep.Speeds, err = measureSpeed(ctx, o); err != nil {
		return nil, err
	}
	rep.Links, err = measureLinks(ctx, o)
	return rep, err
}

func draw(rep *Report, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := rep.Plot(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
