package chat

import (
	"fmt"
	"time"
)

// What a template may be and do.
const (
	maxSource = 128 << 10 // bytes
	maxTag    = 32 << 10  // bytes between a tag's delimiters, which bounds how deep it nests
	maxSteps  = 300_000   // passes of loops, and macro calls
	maxDepth  = 64        // macros that call macros
	maxRange  = 100_000   // numbers of one range, as transformers has it
	maxTime   = time.Second
)

// maxText is how long a text that a template makes may be, where its chat has said bytes.
func maxText(said int) int { return 1<<20 + 4*said }

// LimitError says that a template was stopped.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return "it was stopped: " + e.What }

// guard counts what one rendering does.
type guard struct {
	steps, depth, text int
	until              time.Time
}

func newGuard(said int) *guard { return &guard{text: maxText(said), until: time.Now().Add(maxTime)} }

// step is one pass of a loop, or one call.
func (g *guard) step() error {
	g.steps++
	if g.steps > maxSteps {
		return &LimitError{fmt.Sprintf("it took more than %d steps", maxSteps)}
	}
	if g.steps%64 == 0 && time.Now().After(g.until) {
		return &LimitError{fmt.Sprintf("it took longer than %v", maxTime)}
	}
	return nil
}

func (g *guard) enter() error {
	if g.depth++; g.depth > maxDepth {
		return &LimitError{fmt.Sprintf("its macros call each other more than %d deep", maxDepth)}
	}
	return g.step()
}

func (g *guard) leave() error {
	g.depth--
	return nil
}

// made looks at a text.
func (g *guard) made(n int) error {
	if n > g.text {
		return &LimitError{fmt.Sprintf("it made a text of %d bytes and the limit is %d", n, g.text)}
	}
	return nil
}
