package router

import (
	"errors"
	"fmt"

	"kvferry/openai"
)

// Times that an attempt waits, in ns.
const (
	// Grace is how long the failure of a decode engine that may only echo its prefill
	// engine's waits for that one's own words.
	Grace = 200e6
	// TimingWait is how long a complete answer is held open for the prefill engine's reply.
	TimingWait = 250e6
)

// never is the deadline of an attempt that waits for nothing but events.
const never = int64(1<<63 - 1)

// leg is how far one of the two requests is.
type leg uint8

const (
	running leg = iota
	done
	failed
	cancelled
)

// stage is how far the client's answer is.
type stage uint8

const (
	// waiting: nothing is sent to the client.
	waiting stage = iota
	// blaming: the decode leg failed, and the prefill leg has a moment to say why.
	blaming
	// streaming: the decode engine's answer is being passed on.
	streaming
	// closing: the answer is complete but for the prefill engine's timing.
	closing
	// over: the last output was given.
	over
)

// Attempt runs one client's request on one pair, both legs at once (generation_first). A leg
// is started when the attempt is made and at no other time, so none can be repeated.
// case: 17
type Attempt struct {
	pair     Pair
	stage    stage
	prefill  leg
	decode   leg
	timing   *Timing
	blame    Failure
	deadline int64
	out      []Output
}

// NewAttempt starts both legs under a request ID that no other attempt has.
func NewAttempt(id string, pair Pair) *Attempt {
	a := &Attempt{pair: pair, deadline: never}
	a.emit(
		StartDecode{Engine: pair.Decode, Disagg: openai.Disagg{
			RequestType: openai.GenerationOnly, RequestID: id, ScheduleStyle: openai.GenerationFirst,
			CtxInfoEndpoint: pair.Prefill.Report.Agent,
		}},
		StartPrefill{Engine: pair.Prefill, Disagg: openai.Disagg{
			RequestType: openai.ContextOnly, RequestID: id, ScheduleStyle: openai.GenerationFirst,
		}},
	)
	return a
}

// Deadline is when Tick is wanted, in ns; the largest int64 if it is not.
func (a *Attempt) Deadline() int64 { return a.deadline }

// Outputs takes what is to be done now, in order.
func (a *Attempt) Outputs() []Output {
	out := a.out
	a.out = nil
	return out
}

// Tick is to be called when now has reached the deadline.
func (a *Attempt) Tick(now int64) {
	if now < a.deadline {
		return
	}
	switch a.stage {
	case blaming:
		a.fail(a.blame.answer(Decode))
	case closing:
		a.end(Finish{})
	}
}

// Step takes an event. An error means that the caller broke the order of events: a leg that
// ended twice, or decode data before decode headers.
func (a *Attempt) Step(now int64, ev Event) error {
	switch ev := ev.(type) {
	case PrefillDone:
		return a.prefillDone(ev)
	case PrefillFailed:
		return a.prefillFailed(ev.Failure)
	case DecodeHeaders:
		return a.decodeHeaders()
	case DecodeDone:
		return a.decodeDone(now)
	case DecodeFailed:
		return a.decodeFailed(now, ev.Failure)
	case ClientGone:
		if a.stage != over {
			a.end(Leave{})
		}
		return nil
	}
	return fmt.Errorf("router: unknown event %T", ev)
}

func (a *Attempt) prefillDone(ev PrefillDone) error {
	live, err := a.prefill.ended(done)
	if !live {
		return err
	}
	a.timing = ev.Timing
	switch a.stage {
	case blaming:
		// The prefill engine is not to blame.
		a.fail(a.blame.answer(Decode))
	case closing:
		a.end(Finish{Timing: a.timing})
	}
	return nil
}

// prefillFailed tells the client at once, unless the decode engine already answers: whether
// it has all that it needs, it knows itself, and a healthy stream is not cut.
func (a *Attempt) prefillFailed(f Failure) error {
	live, err := a.prefill.ended(failed)
	if !live {
		return err
	}
	a.emit(LegFailed{Engine: a.pair.Prefill, Failure: f})
	switch a.stage {
	case waiting, blaming:
		a.fail(f.answer(Prefill))
	case closing:
		a.end(Finish{})
	}
	return nil
}

func (a *Attempt) decodeHeaders() error {
	if a.decode == cancelled {
		return nil
	}
	if a.decode != running || a.stage != waiting {
		return errors.New("router: decode headers come once, from a leg that runs")
	}
	a.stage = streaming
	a.emit(Forward{})
	return nil
}

func (a *Attempt) decodeDone(now int64) error {
	if a.stage == waiting {
		return errors.New("router: decode leg is done before its headers")
	}
	live, err := a.decode.ended(done)
	if !live {
		return err
	}
	if a.prefill != running {
		a.end(Finish{Timing: a.timing})
		return nil
	}
	a.stage, a.deadline = closing, now+TimingWait
	return nil
}

func (a *Attempt) decodeFailed(now int64, f Failure) error {
	live, err := a.decode.ended(failed)
	if !live {
		return err
	}
	a.emit(LegFailed{Engine: a.pair.Decode, Failure: f})
	switch {
	case a.stage == streaming:
		a.end(Break{Err: f.answer(Decode)})
	case f.secondhand() && a.prefill == running:
		a.stage, a.blame, a.deadline = blaming, f, now+Grace
	default:
		a.fail(f.answer(Decode))
	}
	return nil
}

// ended notes a leg's end. A leg that was cancelled ends without a say (live is false).
func (l *leg) ended(as leg) (live bool, err error) {
	switch *l {
	case running:
		*l = as
		return true, nil
	case cancelled:
		return false, nil
	}
	return false, errors.New("router: leg ended twice")
}

func (a *Attempt) fail(err *openai.Error) { a.end(Fail{Err: err}) }

// end gives up what still runs and then gives the last output.
func (a *Attempt) end(last Output) {
	if a.prefill == running {
		a.prefill = cancelled
		a.emit(CancelPrefill{})
	}
	if a.decode == running {
		a.decode = cancelled
		a.emit(CancelDecode{})
	}
	a.stage, a.deadline = over, never
	a.emit(last)
}

func (a *Attempt) emit(out ...Output) { a.out = append(a.out, out...) }
