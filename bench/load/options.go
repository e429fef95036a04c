package load

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Options choose the load.
type Options struct {
	// URL is the server's, without /v1. Check, if set, is that of a server whose answers are
	// the right ones.
	URL, Check string
	// Model is what requests ask for; if empty, each server's first.
	Model string
	// Chat sends chats, not completions.
	Chat bool
	// Requests is how many to send, and Duration how long to go on sending; 0 is no limit, and
	// one of the two must be set.
	Requests int
	Duration time.Duration
	// Concurrency is how many clients there are in a closed loop, each of which asks again when
	// it has its answer. With a Rate the loop is open instead: so many requests a second come
	// at random, however the server does.
	Concurrency int
	Rate        float64
	// Prompts are used in turn. Without any, prompts of PromptTokens are made up.
	Prompts      []Prompt
	PromptTokens Range
	// OutputTokens is how long answers may be; with IgnoreEOS they are that long. Not every
	// server knows ignore_eos.
	OutputTokens Range
	IgnoreEOS    bool
	// Temperature 0 is greedy; otherwise each request has a seed of its own.
	Temperature float64
	// Seed makes the same load again.
	Seed uint64
	// Timeout is how long an answer may take.
	Timeout time.Duration
	// Say, if set, is told how far it is.
	Say func(line string)
	// Done, if set, is told of each request that has ended.
	Done func()
}

// DefaultOptions is a light load on a server of ours.
func DefaultOptions() Options {
	return Options{
		URL: "http://127.0.0.1:8000", Requests: 100, Concurrency: 8,
		PromptTokens: Range{512, 512}, OutputTokens: Range{64, 64}, IgnoreEOS: true, Timeout: 2 * time.Minute,
	}
}

// Validate reports the first option that cannot be, by its flag's name.
func (o Options) Validate() error {
	switch {
	case o.URL == "":
		return errors.New("url: want the server's address")
	case o.Requests < 0:
		return fmt.Errorf("requests %d: want at least 1, or 0 with a duration", o.Requests)
	case o.Duration < 0:
		return fmt.Errorf("duration %s: want more than 0, or 0 for no limit", o.Duration)
	case o.Requests == 0 && o.Duration == 0:
		return errors.New("requests and duration are both 0: want a limit")
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 0):
		return fmt.Errorf("rate %g: want more than 0, or 0 for a closed loop", o.Rate)
	case o.Rate == 0 && o.Concurrency < 1:
		return fmt.Errorf("concurrency %d: want at least 1", o.Concurrency)
	case !(o.Temperature >= 0 && o.Temperature <= 2):
		return fmt.Errorf("temperature %g: want 0 to 2", o.Temperature)
	case o.Timeout <= 0:
		return fmt.Errorf("timeout %s: want more than 0", o.Timeout)
	}
	if o.Chat {
		for i, p := range o.Prompts {
			if p.Tokens != nil {
				return fmt.Errorf("prompt %d is token IDs, which a chat cannot have", i+1)
			}
		}
	}
	if err := o.PromptTokens.validate("prompt-tokens"); err != nil {
		return err
	}
	return o.OutputTokens.validate("output-tokens")
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// Range is from Min to Max, both included; every number is as likely.
type Range struct{ Min, Max int }

// ParseRange reads N or MIN:MAX.
func ParseRange(s string) (Range, error) {
	low, high, two := strings.Cut(s, ":")
	if !two {
		high = low
	}
	var r Range
	var err1, err2 error
	r.Min, err1 = strconv.Atoi(low)
	r.Max, err2 = strconv.Atoi(high)
	if err1 != nil || err2 != nil {
		return r, fmt.Errorf("%q: want N or MIN:MAX", s)
	}
	return r, nil
}

func (r Range) validate(name string) error {
	if r.Min < 1 || r.Max < r.Min {
		return fmt.Errorf("%s %d:%d: want numbers from 1 up, the lower one first", name, r.Min, r.Max)
	}
	return nil
}
