package router

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"kvferry/openai"
)

// observer keeps what an attempt put out and checks each output against what came before.
type observer struct {
	t   *rapid.T
	cfg Config
	// live has the try of each leg that runs, 0 if it does not; last that of the newest.
	live, last map[Role]int
	starts     map[Role]int
	forwards   int
	// handle is what the prefill engine gave last; released counts what was let go.
	handle   json.RawMessage
	released int
	// refused: an engine found fault with the request.
	refused bool
	locals  int
	retries int
	final   Output
}

func newObserver(t *rapid.T, cfg Config) *observer {
	return &observer{t: t, cfg: cfg, live: map[Role]int{}, last: map[Role]int{}, starts: map[Role]int{}}
}

func (o *observer) see(outs []Output) {
	for _, out := range outs {
		if o.final != nil {
			o.t.Fatalf("%#v came after the last output %#v", out, o.final)
		}
		switch out := out.(type) {
		case StartPrefill:
			o.start(Prefill, out.Try)
			if o.handle != nil {
				o.t.Fatalf("prefill is repeated after its reply")
			}
		case StartDecode:
			o.start(Decode, out.Try)
			o.checkPart(out.Part)
		case CancelPrefill:
			o.cancel(Prefill)
		case CancelDecode:
			o.cancel(Decode)
		case Forward:
			o.forwards++
		case LegFailed, GiveUp:
		case Retry:
			o.retries++
			if o.refused || o.forwards > 0 {
				o.t.Fatalf("%+v, refused: %v, forwards: %d", out, o.refused, o.forwards)
			}
			if out.How == PolicyLocal {
				o.locals++
			}
		case Release:
			o.released++
			if string(out.Handle) != string(o.handle) || o.forwards > 0 || o.live[Decode] > 0 {
				o.t.Fatalf("released %s of %s after %d forwards, legs %v", out.Handle, o.handle, o.forwards, o.live)
			}
		default:
			o.end(out)
		}
	}
}

func (o *observer) start(r Role, try int) {
	if o.live[r] > 0 || try <= o.last[r] {
		o.t.Fatalf("%v leg of try %d started while %v run, the last was %d", r, try, o.live, o.last[r])
	}
	o.live[r], o.last[r] = try, try
	o.starts[r]++
}

// checkPart: with context_first a decode engine gets what the prefill engine gave, or all of
// the request.
func (o *observer) checkPart(p Part) {
	switch {
	case o.cfg.ScheduleStyle == GenerationFirst && p.Disagg != nil:
	case o.cfg.ScheduleStyle == ContextFirst && p.Disagg == nil && o.handle != nil && string(p.KV) == string(o.handle):
	case p.Disagg == nil && p.KV == nil && o.locals == 1 && o.handle == nil:
	default:
		o.t.Fatalf("decode is given %+v, the handle is %s", p, o.handle)
	}
}

func (o *observer) cancel(r Role) {
	if o.live[r] == 0 {
		o.t.Fatalf("%v leg cancelled while it does not run", r)
	}
	o.live[r] = 0
}

func (o *observer) end(out Output) {
	o.final = out
	if o.live[Prefill]+o.live[Decode] > 0 {
		o.t.Fatalf("the attempt ended while legs run: %v", o.live)
	}
	if want := o.handle != nil && o.forwards == 0; (o.released == 1) != want || o.released > 1 {
		o.t.Fatalf("the handle %s was released %d times after %d forwards", o.handle, o.released, o.forwards)
	}
	switch out := out.(type) {
	case Fail:
		if o.forwards > 0 || out.Err == nil {
			o.t.Fatalf("fail %v after %d forwards", out.Err, o.forwards)
		}
	case Break:
		if o.forwards != 1 || out.Err == nil {
			o.t.Fatalf("break %v after %d forwards", out.Err, o.forwards)
		}
	case Finish:
		if o.forwards != 1 {
			o.t.Fatalf("finish after %d forwards", o.forwards)
		}
	}
}

// checkStarts: no more engines are troubled than the policy allows.
func (o *observer) checkStarts() {
	p, d := 1, 1
	if o.cfg.PrefillFailurePolicy == PolicyOther {
		p = o.cfg.PrefillTries
	}
	if o.cfg.ScheduleStyle == GenerationFirst {
		d = p
	} else if o.handle != nil {
		d = maxDecodeTries
	}
	if o.locals > 0 {
		d = 2
	}
	if o.starts[Prefill] > p || o.starts[Decode] > d || o.locals > 1 {
		o.t.Fatalf("starts %v, local %d times, with %+v", o.starts, o.locals, o.cfg)
	}
}

func drawConfig(t *rapid.T) (Config, *testEngines) {
	cfg, err := Config{
		ScheduleStyle:        rapid.SampledFrom([]string{GenerationFirst, ContextFirst}).Draw(t, "style"),
		PrefillFailurePolicy: rapid.SampledFrom([]string{PolicyFail, PolicyOther, PolicyLocal}).Draw(t, "policy"),
		PrefillTries:         rapid.IntRange(1, 3).Draw(t, "tries"),
	}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return cfg, &testEngines{
		prefill: rapid.IntRange(1, 4).Draw(t, "prefill engines"), decode: rapid.IntRange(1, 4).Draw(t, "decode engines"),
		locals: rapid.IntRange(0, 1).Draw(t, "places"),
	}
}

// TestAttemptAnyOrder feeds an attempt the ends of its legs, ticks, a hang-up and words of legs
// that were given up, in any order that can happen, in each style and with each policy. However
// that goes: one leg of a role runs at a time, prefill is not repeated once it replied, nothing
// is tried again after the first byte or after an engine found fault with the request, a handle
// that nobody took is released once, what runs at the end is cancelled once, and there is one
// last output.
// case: 06, 10, 12, 17
func TestAttemptAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, engines := drawConfig(t)
		o := newObserver(t, cfg)
		a := NewAttempt(cfg, Start{ID: "id", Pair: testPair()}, engines)
		o.see(a.Outputs())
		s := shell{o: o}
		now := int64(0)
		for range 20 {
			now += rapid.Int64Range(0, Grace).Draw(t, "wait")
			if now >= a.Deadline() {
				a.Tick(now)
				o.see(a.Outputs())
				if o.final == nil {
					t.Fatalf("the attempt goes on after its deadline")
				}
			}
			ev := s.next(t)
			if ev == nil {
				continue
			}
			if err := a.Step(now, ev); err != nil {
				t.Fatalf("%#v: %v", ev, err)
			}
			o.see(a.Outputs())
			o.checkStarts()
			// What waits, waits for a leg, or not for long.
			if o.final == nil && o.live[Prefill]+o.live[Decode] == 0 && a.Deadline() == never {
				t.Fatalf("no leg runs and the attempt waits for ever")
			}
			if s.decodeEnded && o.live[Decode] == 0 && o.final == nil && a.Deadline() == never && cfg.ScheduleStyle == GenerationFirst {
				t.Fatalf("the decode leg ended and the attempt waits for ever")
			}
		}
	})
}

// shell draws events in an order that a shell can produce.
type shell struct {
	o *observer
	// headers is the try whose headers came.
	headers     int
	decodeEnded bool
}

func (s *shell) next(t *rapid.T) Event {
	f := Failure{Lost: true, Cause: errors.New("reset")}
	status := rapid.SampledFrom([]int{0, 400, 429, 500, 502, 503, 504}).Draw(t, "status")
	if status > 0 {
		f = Failure{Answer: &openai.Error{Status: status, Message: "why"}}
	}
	kind := rapid.SampledFrom([]string{"p-done", "p-fail", "headers", "d-done", "d-fail", "gone", "stale"}).Draw(t, "event")
	p, d := s.o.live[Prefill], s.o.live[Decode]
	switch {
	case kind == "gone":
		return ClientGone{}
	case kind == "stale":
		return s.stale(t, f)
	case kind == "headers" && d > 0 && s.headers != d:
		s.headers = d
		return DecodeHeaders{d}
	case kind == "d-done" && d > 0 && s.headers == d:
		s.o.live[Decode], s.decodeEnded = 0, true
		return DecodeDone{d}
	case kind == "d-fail" && d > 0:
		s.o.live[Decode], s.decodeEnded = 0, true
		s.o.refused = s.o.refused || f.refused()
		return DecodeFailed{d, f}
	case kind == "p-done" && p > 0:
		s.o.live[Prefill] = 0
		return s.prefillDone(t, p)
	case kind == "p-fail" && p > 0:
		s.o.live[Prefill] = 0
		s.o.refused = s.o.refused || f.refused()
		return PrefillFailed{p, f}
	}
	return nil
}

func (s *shell) prefillDone(t *rapid.T, p int) Event {
	ev := PrefillDone{Try: p, Timing: &Timing{}}
	if s.o.cfg.ScheduleStyle == ContextFirst && rapid.Bool().Draw(t, "has a handle") {
		ev.Handle = json.RawMessage(`{"x":1}`)
		s.o.handle = ev.Handle
	}
	return ev
}

// stale is a word of a leg of an earlier try, which was in the queue when the leg was given up.
func (s *shell) stale(t *rapid.T, f Failure) Event {
	role := rapid.SampledFrom([]Role{Prefill, Decode}).Draw(t, "role")
	try := s.o.last[role] - 1
	if try < 1 {
		return nil
	}
	if role == Prefill {
		return rapid.SampledFrom([]Event{PrefillDone{Try: try, Handle: json.RawMessage(`{"old":1}`)}, PrefillFailed{try, f}}).Draw(t, "stale")
	}
	return rapid.SampledFrom([]Event{DecodeHeaders{try}, DecodeDone{try}, DecodeFailed{try, f}}).Draw(t, "stale")
}
