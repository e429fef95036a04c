package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"kvferry/bench/load"
	"kvferry/engine"
	"kvferry/node"
)

// speed is one request's times in seconds: to the first token, and of all others together.
type speed struct{ first, rest float64 }

// The systems that are compared.
const (
	aloneSystem = "llama.cpp alone"
	serveSystem = "serve"
	upSystem    = "up"
)

// systems are all of them, in this process.
type systems struct {
	o       *options
	engines []*node.Engine
	router  *node.Router
	serve   string // URLs
	up      string
	alone   *alone
	asked   uint64
}

// stopTimeout is how long an engine may take to end what still runs.
const stopTimeout = 5 * time.Second

func startSystems(ctx context.Context, o *options) (s *systems, err error) {
	s = &systems{o: o}
	defer func() {
		if err != nil {
			s.stop()
			s = nil
		}
	}()
	var urls []string
	for _, role := range []engine.Role{engine.Aggregated, engine.Prefill, engine.Decode} {
		cfg := o.engine
		cfg.Role, cfg.Pipelined = role, role == engine.Prefill
		e, err := node.StartEngine(cfg)
		if err != nil {
			return s, fmt.Errorf("%s engine: %w", role, err)
		}
		s.engines = append(s.engines, e)
		urls = append(urls, "http://"+e.Addr())
	}
	s.router, err = node.StartRouter(node.RouterConfig{
		Listen: "127.0.0.1:0", Prefill: urls[1:2], Decode: urls[2:], DrainTimeout: time.Second,
	})
	if err != nil {
		return s, fmt.Errorf("router: %w", err)
	}
	s.serve, s.up = urls[0], "http://"+s.router.Addr()
	if err := node.AwaitReady(ctx, s.router.Addr()); err != nil {
		return s, err
	}
	s.alone, err = newAlone(o)
	return s, err
}

func (s *systems) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.router != nil {
		s.router.Stop(ctx)
	}
	if s.alone != nil {
		s.alone.close()
	}
	for _, e := range s.engines {
		e.Stop(ctx)
	}
}

// ask has one system answer a fresh prompt.
func (s *systems) ask(ctx context.Context, system string, length int) (speed, error) {
	s.asked++
	url := s.serve
	switch system {
	case aloneSystem:
		return s.alone.answer(printable(s.asked, length), s.o.output)
	case upSystem:
		url = s.up
	}
	o := load.DefaultOptions()
	o.URL, o.Requests, o.Concurrency, o.Seed = url, 1, 1, s.asked
	o.PromptTokens, o.OutputTokens = load.Range{Min: length, Max: length}, load.Range{Min: s.o.output, Max: s.o.output}
	rep, err := load.Run(ctx, ctx, o)
	if err == nil {
		err = rep.Verdict()
	}
	if err != nil {
		return speed{}, fmt.Errorf("%s, %d tokens: %w", system, length, err)
	}
	return speed{first: rep.FirstToken.Max, rest: rep.Whole.Max - rep.FirstToken.Max}, nil
}

// printable is a prompt as the load has them: token IDs that every vocabulary has.
func printable(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]int32, n)
	for i := range out {
		out[i] = ' ' + r.Int32N('~'-' '+1)
	}
	return out
}

// measureSpeed asks all systems in turn, in another order each round.
func measureSpeed(ctx context.Context, o *options) ([]Speed, error) {
	s, err := startSystems(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	order := []string{aloneSystem, serveSystem, upSystem}
	var out []Speed
	for _, length := range o.lengths {
		samples := map[string][]speed{}
		for round := range o.rounds + 1 { // the first one warms up
			o.tell("speed: %d tokens, round %d of %d", length, round, o.rounds)
			for _, system := range order {
				got, err := s.ask(ctx, system, length)
				if err != nil {
					return nil, err
				}
				if round > 0 {
					samples[system] = append(samples[system], got)
				}
			}
			order = append(order[1:], order[0])
		}
		out = append(out, newSpeed(length, o.output, samples))
	}
	return out, nil
}

// median of values, which it sorts.
func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// medianOf is the median of what f makes of each sample.
func medianOf(list []speed, f func(i int, s speed) float64) float64 {
	v := make([]float64, len(list))
	for i, s := range list {
		v[i] = f(i, s)
	}
	return median(v)
}

// newSpeed takes a prompt length's samples. Ratios are medians of those of each round, as what
// a machine does besides changes from round to round.
func newSpeed(length, output int, samples map[string][]speed) Speed {
	s := Speed{PromptTokens: length, OutputTokens: output, Systems: map[string]Figures{}}
	for name, list := range samples {
		s.Systems[name] = Figures{
			FirstToken: medianOf(list, func(_ int, s speed) float64 { return s.first }),
			Prompt:     medianOf(list, func(_ int, s speed) float64 { return float64(length) / s.first }),
			Decode:     medianOf(list, func(_ int, s speed) float64 { return float64(output-1) / s.rest }),
			PromptRatio: medianOf(list, func(i int, s speed) float64 {
				return samples[aloneSystem][i].first / s.first
			}),
			DecodeRatio: medianOf(list, func(i int, s speed) float64 {
				return samples[aloneSystem][i].rest / s.rest
			}),
		}
	}
	s.FirstTokenRatio = medianOf(samples[upSystem], func(i int, up speed) float64 { return up.first / samples[serveSystem][i].first })
	return s
}
