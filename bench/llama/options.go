package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kvferry/node"
)

// options choose what is measured.
type options struct {
	engine  node.EngineConfig
	lengths []int   // of prompts, in tokens
	output  int     // tokens of an answer, from which decode speed is taken
	links   []int64 // in bytes a second
	rounds  int
	say     func(line string)
}

// list is a flag of values with commas between.
type list[T any] struct {
	into  *[]T
	parse func(string) (T, error)
}

// String is the value's text.
func (l list[T]) String() string {
	if l.into == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*l.into), " ", ","), "[]")
}

// Set takes the values' text.
func (l list[T]) Set(s string) error {
	*l.into = nil
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		v, err := l.parse(part)
		if err != nil {
			return err
		}
		*l.into = append(*l.into, v)
	}
	return nil
}

// megabytes reads a link's rate.
func megabytes(s string) (int64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "MB"), 64)
	if err != nil || !(v > 0 && v < 1e6) {
		return 0, fmt.Errorf("%q: want megabytes a second, as 20MB", s)
	}
	return int64(v * 1e6), nil
}

func defaults() options {
	o := options{
		engine: node.DefaultEngineConfig(), lengths: []int{64, 128, 256, 512, 1024, 1500}, output: 32,
		links: []int64{20e6, 200e6}, rounds: 5,
	}
	o.engine.Runner, o.engine.Llama.Threads = node.LlamaRunner, 1
	return o
}

func (o *options) flags(f *flag.FlagSet) {
	f.StringVar(&o.engine.Model, "model", "", "the GGUF `file`")
	f.StringVar(&o.engine.Llama.Library, "llama-lib", o.engine.Llama.Library, "folder of llama.cpp's libraries")
	f.IntVar(&o.engine.Llama.Threads, "threads", o.engine.Llama.Threads, "threads of each engine, and of llama.cpp alone")
	f.IntVar(&o.engine.ChunkTokens, "chunk-tokens", o.engine.ChunkTokens, "tokens of a chunk")
	f.Var(list[int]{&o.lengths, strconv.Atoi}, "lengths", "prompt `lengths` in tokens")
	f.IntVar(&o.output, "output", o.output, "tokens of an answer")
	f.Var(list[int64]{&o.links, megabytes}, "links", "links to slow transfers down to, as 20MB,200MB a second; none leaves this part out")
	f.IntVar(&o.rounds, "rounds", o.rounds, "how often each figure is measured; medians count")
}

func (o *options) validate() error {
	switch {
	case o.engine.Model == "":
		return errors.New("model: want a GGUF file")
	case len(o.lengths) == 0 || slices.Min(o.lengths) < 2:
		return fmt.Errorf("lengths %v: want numbers from 2 up", o.lengths)
	case o.output < 2:
		return fmt.Errorf("output %d: want at least 2", o.output)
	case o.rounds < 1:
		return fmt.Errorf("rounds %d: want at least 1", o.rounds)
	}
	slices.Sort(o.lengths)
	// As much as the longest needs, on all sides, and nothing is remembered between requests.
	o.engine.Llama.Context = slices.Max(o.lengths) + o.output
	o.engine.BlockReuse, o.engine.ChunkedPrefill, o.engine.Pipelined = false, true, false
	o.engine.KVBlocks = (o.engine.Llama.Context + o.engine.BlockTokens - 1) / o.engine.BlockTokens
	o.engine.TrustNetwork = true // everything is this process
	return o.engine.Validate()
}

func (o *options) tell(format string, args ...any) {
	if o.say != nil {
		o.say(fmt.Sprintf(format, args...))
	}
}
