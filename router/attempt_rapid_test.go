package router

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"kvferry/openai"
)

// observer keeps what an attempt put out and checks each output against what came before.
type observer struct {
	t        *rapid.T
	starts   map[Role]int
	live     map[Role]bool
	failures int
	forwards int
	last     Output
}

func (o *observer) see(outs []Output) {
	for _, out := range outs {
		if o.last != nil {
			o.t.Fatalf("%#v came after the last output %#v", out, o.last)
		}
		switch out := out.(type) {
		case StartPrefill:
			o.starts[Prefill]++
			o.live[Prefill] = true
		case StartDecode:
			o.starts[Decode]++
			o.live[Decode] = true
		case CancelPrefill:
			o.cancel(Prefill)
		case CancelDecode:
			o.cancel(Decode)
		case Forward:
			o.forwards++
		case LegFailed:
			o.failures++
		default:
			o.end(out)
		}
	}
}

func (o *observer) cancel(r Role) {
	if !o.live[r] {
		o.t.Fatalf("%v leg cancelled while it does not run", r)
	}
	o.live[r] = false
}

func (o *observer) end(out Output) {
	o.last = out
	if o.live[Prefill] || o.live[Decode] {
		o.t.Fatalf("the attempt ended while legs run: %v", o.live)
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

// TestAttemptAnyOrder feeds an attempt the ends of its legs, ticks and a hang-up in any order
// that can happen. However that goes, each leg is started once, what runs at the end is
// cancelled once, and there is one last output.
// case: 17, 10
func TestAttemptAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &observer{t: t, starts: map[Role]int{}, live: map[Role]bool{}}
		a := NewAttempt("id", testPair())
		o.see(a.Outputs())
		s := shell{ended: map[Role]bool{}}
		now := int64(0)
		for range 12 {
			now += rapid.Int64Range(0, Grace).Draw(t, "wait")
			if now >= a.Deadline() {
				a.Tick(now)
				o.see(a.Outputs())
				if o.last == nil {
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
			for r, ended := range s.ended {
				o.live[r] = o.live[r] && !ended
			}
			o.see(a.Outputs())
		}
		if o.starts[Prefill] != 1 || o.starts[Decode] != 1 {
			t.Fatalf("starts: %v", o.starts)
		}
		// Nothing that has come to an end waits for more than the timing or the blame.
		if s.ended[Decode] && o.last == nil && a.Deadline() == never {
			t.Fatalf("the decode leg ended and the attempt waits for ever")
		}
	})
}

// shell draws events in an order that a shell can produce.
type shell struct {
	ended   map[Role]bool
	headers bool
}

func (s *shell) next(t *rapid.T) Event {
	f := Failure{Lost: true, Cause: errors.New("reset")}
	if status := rapid.SampledFrom([]int{0, 400, 429, 500, 502, 503, 504}).Draw(t, "status"); status > 0 {
		f = Failure{Answer: &openai.Error{Status: status, Message: "why"}}
	}
	switch kind := rapid.SampledFrom([]string{"p-done", "p-fail", "headers", "d-done", "d-fail", "gone"}).Draw(t, "event"); {
	case kind == "gone":
		return ClientGone{}
	case kind == "headers" && !s.headers && !s.ended[Decode]:
		s.headers = true
		return DecodeHeaders{}
	case kind == "d-done" && s.headers && !s.ended[Decode]:
		s.ended[Decode] = true
		return DecodeDone{}
	case kind == "d-fail" && !s.ended[Decode]:
		s.ended[Decode] = true
		return DecodeFailed{f}
	case kind == "p-done" && !s.ended[Prefill]:
		s.ended[Prefill] = true
		return PrefillDone{&Timing{}}
	case kind == "p-fail" && !s.ended[Prefill]:
		s.ended[Prefill] = true
		return PrefillFailed{f}
	}
	return nil
}
