package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kvferry/bench/load"
)

func benchServeCommand() *cobra.Command {
	o := load.DefaultOptions()
	var out outputFlags
	var prompts string
	promptTokens, outputTokens := "512", "64"
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Put a server that speaks OpenAI's API under load",
		Long: `Puts a server that speaks OpenAI's API under load and prints time to first token, time
between tokens, throughput and errors by kind. Clients ask again when they have their answer
(--concurrency), or requests come at random whatever the server does (--rate).

Prompts are made up, as token IDs of the wanted number (in a chat, as so many short words),
or read from a file. The same --seed makes the same load again.

--check compares every answer with that of another server, which runs the same model in one
process, say. The exit status is 1 if one is wrong. Ctrl-C ends the load, and what came until
then is checked and printed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f := cmd.Flags(); f.Changed("duration") && !f.Changed("requests") {
				o.Requests = 0
			}
			var err error
			if o.PromptTokens, err = load.ParseRange(promptTokens); err != nil {
				return fmt.Errorf("prompt-tokens %w", err)
			}
			if o.OutputTokens, err = load.ParseRange(outputTokens); err != nil {
				return fmt.Errorf("output-tokens %w", err)
			}
			if o.Prompts, err = readPrompts(prompts); err != nil {
				return err
			}
			say := newProgress(cmd.ErrOrStderr())
			defer say.end()
			o.Say = say.line
			stop, release := stopSignal()
			defer release()
			rep, err := load.Run(stop, stop.force, o)
			if err != nil {
				return err
			}
			say.end()
			if err := out.write(cmd.OutOrStdout(), rep, rep.Table, nil); err != nil {
				return err
			}
			return rep.Verdict()
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.URL, "url", o.URL, "the server")
	f.StringVar(&o.Check, "check", "", "`URL` of a server whose answers are right")
	f.StringVar(&o.Model, "model", "", "the model's `name` (default each server's first)")
	f.BoolVar(&o.Chat, "chat", false, "send chats instead of completions")
	f.IntVar(&o.Requests, "requests", o.Requests, "how many requests to send")
	f.DurationVar(&o.Duration, "duration", 0, "how long to send requests, however many")
	f.IntVar(&o.Concurrency, "concurrency", o.Concurrency, "clients that ask at the same time")
	f.Float64Var(&o.Rate, "rate", 0, "requests that come in a second, however many are running; in place of --concurrency")
	f.StringVar(&prompts, "prompts", "", "`FILE` of prompts, one a line, or a line of JSON with prompt and max_tokens")
	f.StringVar(&promptTokens, "prompt-tokens", promptTokens, "length of made-up prompts, `N` or MIN:MAX")
	f.StringVar(&outputTokens, "output-tokens", outputTokens, "most tokens of an answer, `N` or MIN:MAX")
	f.BoolVar(&o.IgnoreEOS, "ignore-eos", o.IgnoreEOS, "have answers be as long as they may; false for servers without ignore_eos")
	f.Float64Var(&o.Temperature, "temperature", 0, "0 takes the likeliest token; above, each request has a seed")
	f.Uint64Var(&o.Seed, "seed", 0, "makes the same load again")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long an answer may take")
	f.BoolVar(&out.json, "json", false, "print JSON instead of a table")
	return cmd
}

// readPrompts reads a file, if one is named.
func readPrompts(path string) ([]load.Prompt, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	defer f.Close()
	list, err := load.ReadPrompts(f)
	if err != nil {
		return nil, fmt.Errorf("prompts: %s: %w", path, err)
	}
	return list, nil
}
