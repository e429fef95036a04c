//go:build linux && amd64 && llamacpp

package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"kvferry/engine"
	"kvferry/node/e2etest"
)

// needle is a prompt that tells a number which its answer has to repeat, and that number.
func needle(i int) (prompt, number string) {
	number = fmt.Sprint(10007 + 7919*i%89989)
	prompt = fmt.Sprintf("%s\nThe number of the ferry is %s. Do not forget that the number of the ferry is %s.\n%s\nWe remember that the number of the ferry is",
		story(i, 10+10*(i%8)), number, number, story(100+i, 16))
	return prompt, number
}

// TestRealModelNeedles: of eight requests at once each is answered from its own prompt, whatever
// the mode: with the number that is in it, and with the tokens of the aggregated engine up to one
// that is as likely as another.
//
// req: SERVE-02, SERVE-05
func TestRealModelNeedles(t *testing.T) {
	cfg := llamaConfig(t, real(t))
	cfg.Llama.Context, cfg.MaxSeqs = 2048, 8
	whole := cfg
	whole.Role = engine.Aggregated
	alone := e2etest.StartEngine(t, whole)
	requests := make([]e2etest.Request, min(16, *llamaPrompts))
	want := make([]*e2etest.Answer, len(requests))
	for i := range requests {
		prompt, number := needle(i)
		requests[i] = e2etest.Request{Prompt: prompt, Stream: i%2 == 0}.With(greedy).With(map[string]any{"max_tokens": 8, "ignore_eos": true, "logprobs": 3})
		a, err := alone.Complete(t.Context(), requests[i])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(a.Text, number) {
			t.Fatalf("the model does not find %s: %q", number, a.Text)
		}
		want[i] = a
	}
	for name, mode := range llamaModes {
		t.Run(name, func(t *testing.T) {
			c := e2etest.Start(t, mode(e2etest.Options{Engine: cfg}))
			var wg sync.WaitGroup
			next := make(chan int)
			for range 8 {
				wg.Go(func() {
					for i := range next {
						got, err := c.Complete(t.Context(), requests[i])
						_, number := needle(i)
						switch {
						case err != nil:
							t.Errorf("request %d: %v", i, err)
						case !strings.Contains(got.Text, number):
							t.Errorf("request %d: %q, and its number is %s", i, got.Text, number)
						case near(got, want[i]) != nil && !tied(rounding, got, want[i]):
							t.Errorf("request %d: %v", i, near(got, want[i]))
						}
					}
				})
			}
			for i := range requests {
				next <- i
			}
			close(next)
			wg.Wait()
			c.AwaitIdle(t)
		})
	}
}
