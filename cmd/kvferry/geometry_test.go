package main_test

import (
	"fmt"
	"testing"
	"time"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// engines of one role that differ in what may differ between the two sides.
var (
	prefillKinds = map[string][]string{
		"one rank":              {"--pipelined"},
		"two ranks":             {"--pipelined", "--tensor-parallel=2"},
		"four ranks":            {"--pipelined", "--tensor-parallel=4"},
		"two stages":            {"--pipelined", "--pipeline-parallel=2"},
		"growing, no reuse":     {"--pipelined", "--kv-manager=grow", "--enable-block-reuse=false"},
		"whole, stages, ranks":  {"--pipeline-parallel=2", "--tensor-parallel=2", "--enable-block-reuse=false"},
		"growing, with a reuse": {"--kv-manager=grow"},
	}
	decodeKinds = map[string][]string{
		"one rank":          {"--kv-checksum"},
		"two ranks":         {"--tensor-parallel=2"},
		"four ranks":        {"--tensor-parallel=4", "--kv-checksum"},
		"growing":           {"--kv-manager=grow"},
		"growing, no reuse": {"--kv-manager=grow", "--enable-block-reuse=false"},
		"two stages":        {"--pipeline-parallel=2", "--enable-block-reuse=false"},
	}
)

// TestEveryGeometry pairs prefill engines of every cut, manager and reuse with decode engines
// of every other, each a process. The prompts begin alike and then differ, so that caches on
// either side, on both and on neither are hit and diverge. Every answer is the aggregated
// run's, and afterwards nothing is held.
//
// req: PIPE-07
// req: PIPE-09
// req: PIPE-26
// req: PIPE-30
// req: PIPE-33
func TestEveryGeometry(t *testing.T) {
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	engines := func(role string, kinds map[string][]string) map[string]*e2etest.Client {
		out := map[string]*e2etest.Client{}
		for kind, flags := range kinds {
			args := append([]string{role, "--listen=127.0.0.1:0"}, flags...)
			if role == "prefill" {
				args = append(args, "--chunk-tokens=40")
			}
			out[kind] = e2etest.NewClient(launch(t, args...).ready(t), models.TinyName)
		}
		return out
	}
	prefills, decodes := engines("prefill", prefillKinds), engines("decode", decodeKinds)
	for pk, p := range prefills {
		for dk, d := range decodes {
			t.Run(pk+" to "+dk, func(t *testing.T) { pairServes(t, p, d) })
		}
	}
}

func pairServes(t *testing.T, p, d *e2etest.Client) {
	r := launch(t, "router", "--listen=127.0.0.1:0", "--prefill="+p.URL, "--decode="+d.URL)
	router := e2etest.NewClient(r.ready(t), models.TinyName)
	defer router.Close()
	e2etest.Await(t, time.Minute, "the router is ready", func() error {
		var s struct {
			Ready bool `json:"ready"`
		}
		if err := router.Get(t.Context(), "/ready", &s); err != nil {
			return err
		}
		if !s.Ready {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	const opening = "It was the custom of the house, on the first evening of every month, that the whole of the family should assemble " +
		"before the fire in the great parlour, and that the eldest daughter should read aloud from some improving work, while her " +
		"mother and her sisters were employed about their needles, and her father slept in the arm-chair by the window. "
	for _, ending := range []string{"", "On this evening,", "On this evening, the captain", "The whale, "} {
		for name, params := range map[string]map[string]any{
			"greedy": {"temperature": 0, "max_tokens": 20, "logprobs": 0},
			"seeded": {"temperature": 0.8, "seed": 11, "max_tokens": 20, "logprobs": 0},
		} {
			req := e2etest.Request{Prompt: opening + ending, Params: params}
			got, err := router.Complete(t.Context(), req)
			if err != nil {
				t.Fatalf("%s %q: %v", name, ending, err)
			}
			if err := got.Differs(aggregated.Answer(t, e2etest.Config(), req)); err != nil {
				t.Fatalf("%s %q: %v", name, ending, err)
			}
		}
	}
	for _, e := range []*e2etest.Client{p, d} {
		e2etest.Await(t, time.Minute, e.URL+" is at its baseline", func() error {
			var s node.State
			if err := e.Get(t.Context(), "/debug/state", &s); err != nil {
				return err
			}
			return idle(s)
		})
	}
}
