package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kvferry/node"
)

// TestExposed: the same prompt over the same link, in one piece and in four. All of the
// monolithic transfer shows, of the pipelined one about the last chunk's, and time to first
// token falls accordingly; layer by layer most of a single chunk's is hidden, too.
//
// req: PIPE-01
// req: PIPE-26
// req: PIPE-27
func TestExposed(t *testing.T) {
	o := DefaultOptions()
	o.Engine.Model = "emulated:test"
	o.PromptTokens, o.Chunks, o.Rounds = 1024, []int{1, 4}, 3
	o.Bandwidths = []int64{30e6} // 35 ms for a prompt that takes 60 ms to compute
	said := 0
	o.Say = func(string) { said++ }
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.KVBytes != 1024*1024 || rep.PromptTokens != 1024 || len(rep.Rows) != 6 || said < 4 {
		t.Fatalf("%+v, said %d lines", rep, said)
	}
	for i, want := range []struct {
		mode           string
		chunks, slices int
	}{
		{"monolithic", 1, 1},
		{"pipelined", 1, 1},
		{"layer-wise", 1, 1},
		{"monolithic", 4, 1},
		{"pipelined", 4, 4},
		{"layer-wise", 4, 4},
	} {
		r := rep.Rows[i]
		if r.Mode != want.mode || r.Chunks != want.chunks || r.Slices != want.slices || r.Bandwidth != 30e6 {
			t.Errorf("row %d is %+v, want %+v", i, r, want)
		}
		if !r.Hideable || r.Compute < 0.055 || r.Transfer < 0.034 || r.FirstToken < r.Compute {
			t.Errorf("row %d: %+v", i, r)
		}
		if r.Slices == 1 && r.Mode != "layer-wise" && (r.Hidden != 0 || r.Exposed != r.Transfer) {
			t.Errorf("one slice after prefill, and %v s of it are hidden, %v of %v exposed", r.Hidden, r.Exposed, r.Transfer)
		}
	}
	if layers := rep.Rows[2]; layers.Hidden < layers.Transfer/2 || layers.Exposed > rep.Rows[0].Exposed*3/4 {
		t.Errorf("one chunk, layer by layer: %v s hidden, %v exposed; as a whole: %v exposed", layers.Hidden, layers.Exposed, rep.Rows[0].Exposed)
	}
	mono, pipe := rep.Rows[3], rep.Rows[4]
	if pipe.Exposed > mono.Exposed/2 || pipe.Hidden < mono.Exposed/4 {
		t.Errorf("pipelined: %v s exposed and %v hidden, monolithic: %v exposed", pipe.Exposed, pipe.Hidden, mono.Exposed)
	}
	if pipe.FirstToken >= mono.FirstToken {
		t.Errorf("first token after %v s pipelined, %v monolithic", pipe.FirstToken, mono.FirstToken)
	}
}

// TestReference: the reference runner is measured by the same means.
//
// req: PIPE-27
func TestReference(t *testing.T) {
	o := DefaultOptions()
	o.PromptTokens, o.Chunks, o.Rounds, o.Bandwidths = 32, []int{2}, 1, []int64{10e6}
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 3 || rep.Model != node.EmbeddedModel || rep.KVBytes == 0 || rep.Rows[1].Slices != 2 {
		t.Fatalf("%+v", rep)
	}
}

// TestLinks: without bandwidths the links follow from how fast KV is computed, and one of them
// is too slow for it.
func TestLinks(t *testing.T) {
	o := DefaultOptions()
	o.Engine.Model = "emulated:test"
	o.PromptTokens, o.Chunks, o.Rounds = 256, []int{1}, 1
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 9 || rep.KVRate <= 0 {
		t.Fatalf("%+v", rep)
	}
	for i, times := range []float64{0.5, 1.5, 4} {
		if got := float64(rep.Rows[3*i].Bandwidth) / rep.KVRate; got < times*0.99 || got > times*1.01 {
			t.Errorf("link %d carries %v times what is computed, want %v", i, got, times)
		}
	}
	if slow, quick := rep.Rows[0], rep.Rows[6]; slow.Hideable || slow.Transfer < quick.Transfer {
		t.Errorf("slow link: %+v\nquick link: %+v", slow, quick)
	}
}

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"rounds 0":        func(o *Options) { o.Rounds = 0 },
		"chunks: want":    func(o *Options) { o.Chunks = nil },
		"chunks 0":        func(o *Options) { o.Chunks = []int{4, 0} },
		"chunks 65":       func(o *Options) { o.Chunks, o.PromptTokens = []int{65}, 64 },
		"bandwidth 0":     func(o *Options) { o.Bandwidths = []int64{0} },
		"prompt-tokens -": func(o *Options) { o.PromptTokens = -1 },
		"context of 8192": func(o *Options) { o.PromptTokens = 8191 },
		"\"f8\"":          func(o *Options) { o.Engine.KVDType = "f8" },
		"want one of":     func(o *Options) { o.Engine.Model = "emulated:none" },
	} {
		o := DefaultOptions()
		o.Engine.Model = "emulated:test"
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestFit: the usual prompt has whole blocks in every chunk, and fits the context.
func TestFit(t *testing.T) {
	o := DefaultOptions()
	for context, want := range map[int]int{8192: 2048, 1024: 768, 300: 256, 100: 98} {
		if got, err := o.fit(context); got != want || err != nil {
			t.Errorf("context of %d: %d, %v, want %d", context, got, err, want)
		}
	}
}

// TestInterrupted: measuring ends when it is told to, in the middle of a transfer too.
func TestInterrupted(t *testing.T) {
	o := DefaultOptions()
	o.Engine.Model = "emulated:test"
	o.PromptTokens, o.Chunks = 64, []int{1}
	o.Bandwidths = []int64{1} // a transfer of a day
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Say = func(line string) {
		if strings.HasPrefix(line, "link") {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}
	began := time.Now()
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
