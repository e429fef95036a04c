package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"kvferry/node"
)

// Options choose what is measured.
type Options struct {
	// Engine is what all engines have in common: the model, block size and KV type. Roles,
	// addresses and chunks are filled in.
	Engine node.EngineConfig
	// PromptTokens is the prompt's length; 0 takes 2,048 or as many as fit the model's context.
	PromptTokens int
	// Chunks are the numbers of chunks to cut it into.
	Chunks []int
	// Bandwidths are the links' in bytes a second. With none, the rate at which the prompt's
	// KV is computed is measured first, and the links carry half of it, one and a half times
	// and four times as much.
	Bandwidths []int64
	// Rounds is how often each figure is measured; the median counts.
	Rounds int
	// Say, if set, is told how far it is.
	Say func(line string)
}

// DefaultOptions measures 1 to 16 chunks, three times each.
func DefaultOptions() Options {
	return Options{Engine: node.DefaultEngineConfig(), Chunks: []int{1, 2, 4, 8, 16}, Rounds: 3}
}

// Validate reports the first option that cannot be.
func (o Options) Validate() error {
	switch {
	case o.Rounds < 1:
		return fmt.Errorf("rounds %d: want at least 1", o.Rounds)
	case len(o.Chunks) == 0:
		return errors.New("chunks: want at least one number")
	case slices.Min(o.Chunks) < 1:
		return fmt.Errorf("chunks %d: want at least 1", slices.Min(o.Chunks))
	case o.PromptTokens < 0:
		return fmt.Errorf("prompt-tokens %d: want at least 1, or 0 for 2,048 or what fits", o.PromptTokens)
	}
	for _, b := range o.Bandwidths {
		if b < 1 {
			return fmt.Errorf("bandwidth %d: want at least 1 byte a second", b)
		}
	}
	return o.Engine.Validate()
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// usualPrompt is the prompt's length where the context allows it.
const usualPrompt = 2048

// fit decides on the prompt's length in a context: a whole number of blocks in every chunk.
func (o Options) fit(context int) (int, error) {
	most := context - answerTokens
	n := o.PromptTokens
	if n == 0 {
		n = min(usualPrompt, most)
		if unit := slices.Max(o.Chunks) * o.Engine.BlockTokens; n > unit {
			n -= n % unit
		}
	}
	if n > most {
		return 0, fmt.Errorf("prompt-tokens %d: the model's context of %d has room for %d", n, context, most)
	}
	if most := slices.Max(o.Chunks); n < most {
		return 0, fmt.Errorf("chunks %d: a prompt of %d tokens cannot be cut into so many", most, n)
	}
	return n, nil
}
