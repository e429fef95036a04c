package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// small is a load of so many requests on a fake server.
func small(url string, requests int) Options {
	o := DefaultOptions()
	o.URL, o.Requests, o.Concurrency = url, requests, 4
	o.PromptTokens, o.OutputTokens = Range{3, 9}, Range{2, 5}
	o.Timeout = 20 * time.Second
	return o
}

// TestQuestions: a load is made again by its seed, spreads over the ranges, and is what was
// asked for.
func TestQuestions(t *testing.T) {
	o := small("", 0)
	o.Temperature = 0.5
	again := o
	json := func(o Options, i int) string {
		q := o.question(i)
		b, err := json.Marshal(q.body)
		if err != nil {
			t.Fatal(err)
		}
		return q.path + string(b)
	}
	lengths, answers := map[int]int{}, map[any]int{}
	for i := range 200 {
		if json(o, i) != json(again, i) {
			t.Fatal("not the same again")
		}
		q := o.question(i)
		lengths[len(q.body["prompt"].([]int32))]++
		answers[q.body["max_tokens"]]++
	}
	if len(lengths) != 7 || lengths[3] == 0 || lengths[9] == 0 || len(answers) != 4 || answers[2] == 0 || answers[5] == 0 {
		t.Errorf("lengths %v, answers %v", lengths, answers)
	}
	other := o
	other.Seed++
	if json(o, 1) == json(other, 1) || json(o, 1) == json(o, 2) {
		t.Error("another seed or number makes no other request")
	}
	if q := o.question(1); q.path != "/v1/completions" || q.body["temperature"] != 0.5 || q.body["seed"] == nil || q.body["ignore_eos"] != true {
		t.Errorf("%v", q)
	}
	o.Temperature, o.IgnoreEOS, o.Chat = 0, false, true
	q := o.question(1)
	text := q.body["messages"].([]map[string]string)[0]["content"]
	if n := len(strings.Fields(text)); q.path != "/v1/chat/completions" || n < 3 || n > 9 || q.body["seed"] != nil || q.body["ignore_eos"] != nil {
		t.Errorf("%v", q)
	}
	o.Chat = false
	o.Prompts = []Prompt{{Text: "one", MaxTokens: 77}, {Tokens: []int32{1, 2}}}
	if q := o.question(2); q.body["prompt"] != "one" || q.body["max_tokens"] != 77 {
		t.Errorf("%v", q)
	}
	if q := o.question(3); !slices.Equal(q.body["prompt"].([]int32), []int32{1, 2}) {
		t.Errorf("%v", q)
	}
}

func TestReadPrompts(t *testing.T) {
	got, err := ReadPrompts(strings.NewReader("plain text\n\n  \n{\"prompt\":\"json\",\"max_tokens\":3}\n{\"prompt\":[4,5]}\nlast"))
	if err != nil || len(got) != 4 || got[0].Text != "plain text" || got[1].Text != "json" || got[1].MaxTokens != 3 ||
		!slices.Equal(got[2].Tokens, []int32{4, 5}) || got[3].Text != "last" {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                  "no prompt",
		"\n \n":                             "no prompt",
		"a\n{":                              "line 2",
		"{}":                                "prompt",
		`{"prompt":""}`:                     "prompt",
		`{"prompt":[]}`:                     "prompt",
		`{"prompt":5}`:                      "prompt",
		`{"prompt":[1.5]}`:                  "prompt",
		`{"prompt":"a","max_tokens":-1}`:    "max_tokens",
		strings.Repeat("x", maxLine+1):      "too long",
		`{"prompt":"a","max_tokens":"six"}`: "line 1",
	} {
		if _, err := ReadPrompts(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q in it", text, err, want)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"url":              func(o *Options) { o.URL = "" },
		"requests -1":      func(o *Options) { o.Requests = -1 },
		"duration -1s":     func(o *Options) { o.Duration = -time.Second },
		"both 0":           func(o *Options) { o.Requests = 0 },
		"rate -1":          func(o *Options) { o.Rate = -1 },
		"concurrency 0":    func(o *Options) { o.Concurrency = 0 },
		"temperature 3":    func(o *Options) { o.Temperature = 3 },
		"timeout 0s":       func(o *Options) { o.Timeout = 0 },
		"prompt-tokens 0":  func(o *Options) { o.PromptTokens.Min = 0 },
		"output-tokens 9:": func(o *Options) { o.OutputTokens = Range{9, 8} },
		"prompt 1":         func(o *Options) { o.Chat, o.Prompts = true, []Prompt{{Tokens: []int32{1}}} },
	} {
		o := DefaultOptions()
		change(&o)
		if _, err := Run(t.Context(), t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	for s, want := range map[string]Range{"5": {5, 5}, "5:9": {5, 9}} {
		if got, err := ParseRange(s); got != want || err != nil {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "a", "5:", ":5", "5:6:7", "5-6"} {
		if _, err := ParseRange(s); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

// TestClosedLoop: as many requests as wanted, as many at once as there are clients, and all
// that an answer says is counted.
func TestClosedLoop(t *testing.T) {
	var running, most, total atomic.Int64
	var mu sync.Mutex
	full := sync.NewCond(&mu)
	url := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		mu.Lock()
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		total.Add(1)
		full.Broadcast()
		for most.Load() < 4 { // the first ones wait until all clients have asked
			full.Wait()
		}
		mu.Unlock()
		defer running.Add(-1)
		if a.Model != "fake" || !a.Stream || !a.IgnoreEOS {
			t.Errorf("asked for %+v", a)
		}
		tell(w, a, "abc")
	})
	ended := atomic.Int64{}
	o := small(url, 30)
	o.Done = func() { ended.Add(1) }
	rep := run(t, o)
	if total.Load() != 30 || most.Load() != 4 || ended.Load() != 30 {
		t.Errorf("%d requests, %d at once, %d ended", total.Load(), most.Load(), ended.Load())
	}
	if rep.Answered != 30 || rep.Failed != 0 || rep.FirstToken.Count != 30 || rep.Between.Count != 60 || rep.Whole.Count != 30 {
		t.Errorf("%+v", rep)
	}
	if got := rep.OutputTokens * rep.Seconds; got < 89.9 || got > 90.1 {
		t.Errorf("%v output tokens", got)
	}
	if got := rep.PromptTokens * rep.Seconds; got < 209.9 || got > 210.1 {
		t.Errorf("%v prompt tokens", got)
	}
	if rep.FirstToken.P50 <= 0 || rep.FirstToken.P50 > rep.Whole.Max || rep.Whole.P99 < rep.Whole.P50 {
		t.Errorf("%+v", rep)
	}
}

// TestOpenLoop: requests come whatever the server does: all of them before it answers one.
func TestOpenLoop(t *testing.T) {
	const requests = 20
	all := make(chan struct{})
	var came atomic.Int64
	url := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		if came.Add(1) == requests {
			close(all)
		}
		<-all
		tell(w, a, "a")
	})
	o := small(url, requests)
	o.Rate, o.Concurrency = 400, 0
	if rep := run(t, o); rep.Answered != requests || rep.Loop != "open, 400 requests/s" {
		t.Errorf("%+v", rep)
	}
}

// TestDuration: no request begins after the time is over.
func TestDuration(t *testing.T) {
	url := serveFake(t, func(w http.ResponseWriter, r *http.Request) { tell(w, read(r), "a") })
	o := small(url, 0)
	o.Duration = 100 * time.Millisecond
	if rep := run(t, o); rep.Answered < 1 || rep.Seconds > 10 {
		t.Errorf("%+v", rep)
	}
}

// TestFailures: each way to fail is a kind of its own, and only those are clear in which the
// server said why.
func TestFailures(t *testing.T) {
	hijack := func(w http.ResponseWriter) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		c.Close()
	}
	for kind, c := range map[string]struct {
		clear  bool
		answer http.HandlerFunc
	}{
		"status 503 overloaded": {true, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			fmt.Fprint(w, `{"error":{"message":"full","type":"server_error","code":"overloaded"}}`)
		}},
		"status 500 server_error": {true, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, `{"error":{"message":"full","type":"server_error"}}`)
		}},
		"status 502 without a reason": {false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }},
		"stream error upstream_failed": {true, func(w http.ResponseWriter, _ *http.Request) {
			event(w, `{"choices":[{"text":"a"}]}`)
			event(w, `{"error":{"message":"gone","type":"upstream_error","code":"upstream_failed"}}`)
		}},
		"stream broke off": {false, func(w http.ResponseWriter, _ *http.Request) { event(w, `{"choices":[{"text":"a"}]}`) }},
		"not a chunk":      {false, func(w http.ResponseWriter, _ *http.Request) { event(w, `?`) }},
		"connection closed": {false, func(w http.ResponseWriter, _ *http.Request) {
			event(w, `{"choices":[{"text":"a"}]}`)
			hijack(w)
		}},
		"time-out": {false, func(w http.ResponseWriter, r *http.Request) {
			event(w, `{"choices":[{"text":"a"}]}`)
			<-r.Context().Done()
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := small(serveFake(t, func(w http.ResponseWriter, r *http.Request) {
				read(r)
				c.answer(w, r)
			}), 3)
			if kind == "time-out" {
				o.Timeout = 50 * time.Millisecond
			}
			rep := run(t, o)
			if rep.Failed != 3 || len(rep.Errors) != 1 || rep.Errors[0].Kind != kind || rep.Errors[0].Count != 3 ||
				rep.Errors[0].Clear != c.clear || rep.Errors[0].Example == "" {
				t.Errorf("%+v", rep.Errors)
			}
			if rep.Verdict() == nil {
				t.Error("nothing was answered, and the verdict is good")
			}
		})
	}
	t.Run("connection refused", func(t *testing.T) {
		o := small("127.0.0.1:1", 3)
		if _, err := Run(t.Context(), t.Context(), o); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Error(err)
		}
	})
}

// TestCheck: every answer is compared, the broken ones as far as they came.
func TestCheck(t *testing.T) {
	var n atomic.Int64
	url := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		switch n.Add(1) % 4 {
		case 0:
			tell(w, a, "right")
		case 1:
			tell(w, a, "wrong")
		case 2:
			event(w, `{"choices":[{"text":"rig"}]}`)
		case 3:
			event(w, `{"choices":[{"text":"rag"}]}`)
		}
	})
	right := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		if a.Stream {
			t.Error("the right answer is streamed")
		}
		tell(w, a, "right")
	})
	o := small(url, 40)
	o.Check = right
	rep := run(t, o)
	if c := rep.Check; c.Right != 20 || c.Wrong != 20 || c.Unchecked != 0 || len(c.Examples) != maxWrong {
		t.Errorf("%+v", c)
	}
	if err := rep.Verdict(); err == nil || !strings.Contains(err.Error(), "20 answers are wrong") {
		t.Error(err)
	}
	var table strings.Builder
	if err := rep.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"20 answered, 20 failed", "20 x stream broke off, NOT CLEAR", "20 right, 20 wrong", `want "right" (length)`} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, &table)
		}
	}

	o.Check = serveFake(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	rep = run(t, o)
	if c := rep.Check; c.Unchecked != 40 || len(c.Errors) != 1 || rep.Verdict() == nil {
		t.Errorf("%+v, verdict %v", c, rep.Verdict())
	}
}

// TestShorterIsWrong: an answer that ended well must be the whole one, for the same reason.
func TestShorterIsWrong(t *testing.T) {
	want := answer{text: "right", reason: "length"}
	for what, c := range map[string]struct {
		heard
		right bool
	}{
		"the same":         {heard{text: "right", reason: "length"}, true},
		"shorter":          {heard{text: "righ", reason: "length"}, false},
		"longer":           {heard{text: "rights", reason: "length"}, false},
		"another reason":   {heard{text: "right", reason: "stop"}, false},
		"broken":           {heard{text: "righ", broken: true}, true},
		"broken and wrong": {heard{text: "wr", broken: true}, false},
		"broken past it":   {heard{text: "rights", broken: true}, false},
	} {
		got := checked{errors: map[string]*Errors{}}
		got.compare(c.heard, want)
		if (got.right == 1) != c.right || got.right+got.wrongs != 1 {
			t.Errorf("%s: %d right, %d wrong", what, got.right, got.wrongs)
		}
	}
}

// TestInterrupted: when it is told to end it gives up what runs, and reports what it has.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	url := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		if n.Add(1) <= 10 {
			tell(w, a, "right")
			return
		}
		event(w, `{"choices":[{"text":"rig"}]}`)
		if n.Load() == 14 {
			cancel()
		}
		<-r.Context().Done()
	})
	o := small(url, 1000)
	o.Check = serveFake(t, func(w http.ResponseWriter, r *http.Request) { tell(w, read(r), "right") })
	rep, err := Run(ctx, t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Answered != 10 || rep.GivenUp != 4 || rep.Failed != 0 || rep.Check.Wrong != 0 || rep.Check.Right < 10 {
		t.Errorf("%+v, check %+v", rep, rep.Check)
	}
	if err := rep.Verdict(); err != nil {
		t.Error(err)
	}
}

// TestChat: chats are asked for and read in their own form.
func TestChat(t *testing.T) {
	url := serveFake(t, func(w http.ResponseWriter, r *http.Request) {
		a := read(r)
		if r.URL.Path != "/v1/chat/completions" || len(a.Messages) != 1 || a.Messages[0].Role != "user" {
			t.Errorf("%s %+v", r.URL, a)
		}
		if !a.Stream {
			fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"hi there"},"finish_reason":"stop"}]}`)
			return
		}
		event(w, `{"choices":[{"delta":{"role":"assistant","content":""}}]}`)
		event(w, `{"choices":[{"delta":{"content":"hi "}}]}`)
		event(w, `{"choices":[{"delta":{"content":"there"}}]}`)
		event(w, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
		event(w, `[DONE]`)
	})
	o := small(url, 4)
	o.Chat, o.Check = true, url
	rep := run(t, o)
	// The server does not count tokens, so pieces of text are counted.
	if rep.Check.Right != 4 || rep.Between.Count != 4 || rep.OutputTokens*rep.Seconds < 7.9 {
		t.Errorf("%+v, check %+v", rep, rep.Check)
	}
}
