package main

import (
	"context"
	"fmt"

	"kvferry/bench/pipeline"
)

// measureLinks has prompts of every length sent over every link, in all modes.
func measureLinks(ctx context.Context, o *options) ([]*pipeline.Report, error) {
	var out []*pipeline.Report
	for _, length := range o.lengths {
		if len(o.links) == 0 {
			break
		}
		p := pipeline.DefaultOptions()
		p.Engine, p.PromptTokens, p.Rounds, p.Bandwidths = o.engine, length, o.rounds, o.links
		p.Chunks = []int{(length + o.engine.ChunkTokens - 1) / o.engine.ChunkTokens}
		p.Say = func(line string) { o.tell("%d tokens: %s", length, line) }
		rep, err := pipeline.Run(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("links, %d tokens: %w", length, err)
		}
		out = append(out, rep)
	}
	return out, nil
}
